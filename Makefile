# make demo | test | test-all | lint | format | results | site | lock
# All packages are installed into .venv, again only after a change of requirements*.
PYTHON ?= python3
BIN := .venv/bin
RUN := outputs/demo/$(shell date +%Y-%m-%d_%H-%M-%S)

.PHONY: demo test test-all lint format results site lock
.DELETE_ON_ERROR:

demo: .venv/installed
	$(BIN)/python train.py experiment=demo hydra.run.dir=$(RUN)
	$(BIN)/python evaluate.py run=$(RUN)
	@echo
	@echo "The run: $(RUN)/ (metrics.csv, summary.json, checkpoints/). Try:"
	@echo "  echo 'Gurcu pu ma ma nibi papa me neba ?' | $(BIN)/python translate.py run=$(RUN) alignments=true"
	@echo "  $(BIN)/python evaluate.py run=$(RUN) data.test=long"

test: .venv/installed
	$(BIN)/python -m pytest

test-all: .venv/installed
	$(BIN)/python -m pytest -m ''

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if npx --no-install prettier --version >/dev/null 2>&1; then npx --no-install prettier --check nmt/web; \
	else echo "nmt/web is not checked, because Prettier is not installed. Fix: npm install --global prettier"; fi

site: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "The site: .cache/site/index.html"

results: .venv/installed
	$(BIN)/python -m studies

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# --no-compile: Python compiles the files that it imports; compiling all of them takes as long as the rest.
unexport PYTHONDONTWRITEBYTECODE # or each command would compile them again
.venv/installed: requirements.txt requirements-dev.txt requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { echo "PYTHON=$(PYTHON): Python 3.11, 3.12 or 3.13 is needed. Fix: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-compile -r requirements-dev.txt # torch alone is left
	@touch $@

# torch has no hash, because its file depends on the machine: processor or CUDA.
lock:
	echo torch | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--excludes /dev/stdin requirements-dev.txt --output-file requirements.lock
