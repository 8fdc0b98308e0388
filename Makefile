# The two commands a new user needs: `make demo` and `make test`, each from a clean clone.
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-all asan tsan fuzz bench docs format lint clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install the Debian packages that are missing
	@scripts/setup.sh

build: setup ## build the release binary: build/release/reigen
	@scripts/build.sh release

demo: build ## run the whole path on the built-in corpus, into demo/
	build/release/reigen demo --output demo --overwrite

test: build ## build and run every test that fits in 20 minutes on two cores
	@scripts/test.sh

test-all: build ## the same, and what takes longer: clang-tidy, 5 million lines, long fuzzing
	@scripts/test.sh --all

bench: build ## measure against peers in the same run
	@bench/run.sh

docs: build ## regenerate docs/options.md from the option tables
	build/release/reigen help --markdown > docs/options.md

format: ## apply clang-format to all sources
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

lint: setup ## check format, layers, scripts and clang-tidy's findings
	@scripts/lint.sh

clean: ## remove everything that was built
	rm -rf build demo
