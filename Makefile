.PHONY: demo test test-slow lint bench fuzz mutate docs tables pictures figures

demo:
	unmask demo

test:
	pytest -n auto

test-slow:
	pytest -n auto -m slow

lint:
	ruff check . && ruff format --check . && mypy

bench:
	python benchmarks/run.py
	python docs/generate.py

fuzz:
	python tools/fuzz.py --seconds 60

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
