# The two commands a new user needs: `make demo` and `make test`, each from a clean clone.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test build demo package package-arm64 package-cuda test test-fast test-all asan tsan fuzz chaos bench docs site format lint clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install missing Debian packages for building
	@scripts/setup.sh

setup-test: ## install missing Debian packages for building, testing and linting
	@scripts/setup.sh --test

build: setup ## build the release binary: build/release/reigen
	@scripts/build.sh release reigen

demo: build ## prepare, train and translate the built-in corpus, in demo/
	build/release/reigen demo --output demo --overwrite

package: setup ## write the relocatable archive and the .deb: build/package
	@scripts/build.sh release reigen reigen_launcher
	@packaging/package.sh

package-arm64: ## write the same for arm64, built on this machine: build/package
	@scripts/setup.sh --arm64
	@scripts/arm64_root.sh
	@scripts/build.sh arm64 reigen reigen_launcher
	@packaging/package.sh --arm64

package-cuda: setup ## write the archive of the CUDA part, where nvcc is: build/package
	@scripts/build.sh cuda-library reigen_cuda
	@packaging/package.sh cuda

test-fast: ## lint, unit tests and a few whole runs; the aim is under 8 minutes on two cores
	@scripts/setup.sh --unit
	@scripts/test.sh fast

test: setup-test ## lint, build and run the tests: about 18 minutes on two cores after the first build
	@scripts/test.sh

test-all: setup-test ## every test: also long ones, all sanitizers, fuzzing, clang-tidy, 5 million lines
	@scripts/test.sh --all

asan: setup-test ## unit tests under the address and undefined-behaviour sanitizers
	@scripts/test.sh asan

tsan: setup-test ## tests of threads under the thread sanitizer
	@scripts/test.sh tsan

fuzz: setup-test ## fuzz every reader of outside input with libFuzzer; `make fuzz MINUTES=60` for an hour in all
	@MINUTES=$(MINUTES) scripts/test.sh fuzz

chaos: setup-test ## elastic jobs under random schedules of faults; `make chaos SEEDS=1000`
	@cmake --preset release -DREIGEN_TESTS=ON >/dev/null
	@scripts/build.sh release reigen
	@python3 tests/chaos/chaos.py --reigen build/release/reigen --jobs 2 --slack $(or $(SLACK),1) --seeds $(or $(SEEDS),100) --first $(or $(FIRST),1)

bench: setup-test ## measure against peers in the same run
	@cmake --preset release -DREIGEN_TESTS=ON >/dev/null
	@scripts/build.sh release reigen benchmarks
	@bench/run.sh

docs: build ## regenerate options.md and measurement-log.md (from the program), benchmarks.md (from bench/results)
	build/release/reigen help --markdown > docs/options.md
	build/release/reigen help --measurement-log > docs/measurement-log.md
	@bench/results/tables.py

site: ## make a static site of the documents, with search: build/site/index.html
	@scripts/site/build.py build/site

format: ## apply clang-format to all sources
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

lint: setup-test ## check format, layers, scripts, generated tables, names in documents, clang-tidy's findings
	@scripts/lint.sh

clean: ## remove everything that was built
	rm -rf build demo
