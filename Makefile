.PHONY: demo test test-slow test-all test-bounds lint bench fuzz fuzz-api mutate golden docs browse tables pictures tutorials figures

demo:
	unmask demo

test:
	pytest -n auto

test-slow:
	pytest -n auto -m slow

# For nights and releases: what is slow, kernels with bounds, the oldest dependencies, mutants.
test-all: test-slow test-bounds mutate
	pytest -m browser
	python tools/oldest.py -- -n auto

# All tests, the kernels compiled with bounds checks into a cache of their own.
test-bounds:
	python tools/bounds.py

lint:
	ruff check . && ruff format --check . && mypy && codespell README.md CHANGELOG.md CONTRIBUTING.md docs src studies tools benchmarks examples

bench:
	python benchmarks/run.py
	python docs/generate.py

fuzz:
	python tools/fuzz.py --seconds 60

fuzz-api:
	python tools/fuzz_api.py --examples 50000

mutate:
	python tools/mutate.py census
	python tools/mutate.py try --sample 300
	python tools/mutate.py report

# What tests compare with (tests/*/golden), measured and written anew: look at the difference.
golden:
	UNMASK_GOLDEN=write pytest -q -n 0 $$(grep -rl --include='test_*.py' 'golden.check' tests)

docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --clean && python docs/check.py site

# Every page in Chromium: what it loads, whether it fits, what axe-core says (npm install axe-core).
AXE ?= node_modules/axe-core/axe.min.js
browse: docs
	python tools/browse.py --samples sample-pages
	python tools/browse.py sample-pages --axe $(AXE)
	python tools/browse.py site --axe $(AXE) --limit 900

tables:
	python docs/generate.py

pictures:
	python docs/generate.py --pictures

tutorials:
	python docs/generate.py --tutorials

figures:
	unmask reproduce all --size paper --output docs/results
