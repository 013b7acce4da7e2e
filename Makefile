# `make run` and `make test` do everything on a fresh Debian 12 or Ubuntu 24.04 machine.
PY := .venv/bin/python
# Options of the training command: make run ARGS="--data book.txt"
ARGS ?=
# Restrict the tests: make test PYTEST_ARGS="-k softmax"
PYTEST_ARGS ?=
# How long and what: make test-soak SOAK_ARGS="--minutes 60 --only kills_during_saves"
SOAK_ARGS ?=
CPP := include src kernels python/src tests/cpp tests/fuzz examples

.PHONY: run test test-kernels test-programs test-soak build build-all develop format lint docs bench test-asan test-tsan wheel clean help
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: build ## set up, build, train a small GPT on real text
	.venv/bin/pyflame train gpt $(ARGS)

build: ## set up and build the library and the Python module
	tools/setup.sh run
	tools/build.sh

build-all: ## the same with the C++ tests
	tools/setup.sh run test
	tools/build.sh all

test: build-all ## set up, build, run all tests
	tools/run_tests.sh $(PYTEST_ARGS)

test-programs: build ## programs of other people's libraries, in an environment of their own
	tools/test_programs.sh

test-kernels: ## GPU kernels through all compilers and on the host, result in tests/results (hours)
	tools/setup.sh run test ci
	tools/build.sh all
	$(PY) tools/test_kernels.py

test-soak: build ## attacks at random: kills, signals, forks, little memory (10 minutes)
	$(PY) tests/soak $(SOAK_ARGS)

format: ## format C++ and Python
	tools/setup.sh ci
	find $(CPP) -name '*.h' -o -name '*.cpp' 2>/dev/null | xargs clang-format -i
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

lint: ## what CI checks besides the tests
	tools/setup.sh ci
	tools/lint.sh

docs: build ## the documentation, into docs/_build
	tools/setup.sh docs
	$(PY) -m sphinx -W --keep-going -b html docs docs/_build

bench: build ## PyFlame beside PyTorch
	tools/setup.sh bench
	$(PY) benchmarks/cpu_benchmark.py --all

test-asan: ## C++ tests, the file fuzzer and pytest with AddressSanitizer and UBSan
	tools/setup.sh run test
	cmake --preset asan -DPYFLAME_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	cmake --build --preset asan && ctest --preset asan
	tools/sanitized_tests.sh build-asan $(PYTEST_ARGS)

test-tsan: ## C++ tests and those of Python's threads with ThreadSanitizer
	tools/setup.sh run test
	cmake --preset tsan -DPYFLAME_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	setarch -R cmake --build --preset tsan && setarch -R ctest --preset tsan
	tools/sanitized_tests.sh build-tsan -q $(wildcard tests/python/test_*thread*.py) $(PYTEST_ARGS)

wheel: ## a wheel, into dist
	tools/setup.sh run
	$(PY) -m pip wheel --no-deps -w dist .

clean: ## remove what was built (not .venv)
	rm -rf build build-* dist docs/_build docs/generated python/pyflame/_C*.so
	find python/pyflame -name '*.pyi' -delete
