.PHONY: demo test test-slow test-bounds lint bench fuzz fuzz-api mutate docs tables pictures figures

demo:
	unmask demo

test:
	pytest -n auto

test-slow:
	pytest -n auto -m slow

# All tests, the kernels compiled with bounds checks into a cache of their own.
test-bounds:
	python tools/bounds.py

lint:
	ruff check . && ruff format --check . && mypy

bench:
	python benchmarks/run.py
	python docs/generate.py

fuzz:
	python tools/fuzz.py --seconds 60

fuzz-api:
	python tools/fuzz_api.py --examples 50000

mutate:
	python tools/mutate.py

docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --clean && python docs/check.py site

tables:
	python docs/generate.py

pictures:
	python docs/generate.py --pictures

figures:
	unmask reproduce all --size paper --output docs/results
