# Two commands matter: `make demo` runs the main job, `make test` checks it. Both create what they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JARS   := $(VENV)/.jars
LOCKS  := requirements/build.lock requirements/all.lock
export OMP_WAIT_POLICY := passive
unexport PYTHONDONTWRITEBYTECODE # without compiled files every process that a test starts compiles all it imports
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test laws check structure words search backtest soak fuzz fuzz-decode lock clean wheel wheel-serve docs reference crash e2e-kube e2e-long e2e-kustomize e2e-helm e2e-compose helm-chart sbom e2e-golden e2e-volcano e2e-airflow e2e-s3 e2e-stock bench-peers

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(JARS) ## create the environment and fetch the jars; nothing is needed before but Python >= 3.11

demo: $(if $(KAFKA),$(JARS),$(STAMP)) ## metrics in, advice out; KAFKA=1 runs it through a real broker; EXIT=1 stops after the report
	$(BIN)/cohabit demo $(if $(KAFKA),--kafka) $(if $(EXIT),--exit)

# a third of the time of tests is waiting: three processes keep two cores busy; pools of threads would wait for each other
test laws e2e-long: export OMP_NUM_THREADS := 1
test laws e2e-long: export OPENBLAS_NUM_THREADS := 1
test laws e2e-long: export POLARS_MAX_THREADS := 1

test: $(JARS) ## all tests in JOBS=3 processes, with a real broker and a real Spark; prints the 15 slowest
	$(BIN)/python -m pytest -n $(or $(JOBS),3) --dist loadfile --no-loadscope-reorder

laws: $(JARS) ## property tests by 1,000 new examples each instead of the same 30
	COHABIT_TEST_PROFILE=laws $(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadfile --no-loadscope-reorder -m hypothesis

crash: $(JARS) ## crash rounds of landing, then of the whole line with Spark, 100 each or ROUNDS=n; SEED=n repeats one
	$(BIN)/python -m tests.ingest.rounds --rounds $(or $(ROUNDS),100) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.ingest.live_rounds --rounds $(or $(ROUNDS),100) $(if $(SEED),--seed $(SEED))

e2e-kube: $(STAMP) ## the real kube-scheduler asks the real advisor; NODES=n, PODS=n, MOVES=n, CLUSTERS=n and PAIRS=n for fewer, ONLY=part, KUBERNETES=minor of the plugin; needs Go on PATH
	$(BIN)/python -m e2e.kube $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS)) $(if $(MOVES),--moves $(MOVES)) $(if $(CLUSTERS),--clusters $(CLUSTERS)) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(ONLY),--only $(ONLY))

e2e-long: $(JARS) ## tests of over 15 s each: the tutorial, whole benchmarks, deaths of the line, every request of the OpenAPI
	$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadfile --no-loadscope-reorder -m long

e2e-kustomize: $(STAMP) ## the released kustomize makes of deploy/ what tests read, and it passes their checks; needs Go
	$(BIN)/python -m tests.deploy.rendered

e2e-helm: $(JARS) ## the released Helm renders and installs the chart, and docs/helm.md leads to the first advised pod; WRITE=1 keeps what it renders; needs Go
	$(BIN)/python -m e2e.helm $(if $(WRITE),--write)
	$(BIN)/python -m tests.deploy.installed

e2e-compose: $(JARS) ## the commands of compose.yaml without containers, by a real broker and PostgreSQL; some minutes
	$(BIN)/python -m tests.deploy.composed

e2e-golden: $(JARS) ## configurations of docs/ingest.md on the exporters' own golden data, through a real broker; needs Go; minutes
	$(BIN)/python -m e2e.golden

e2e-volcano: $(STAMP) ## the real clients of Volcano and kube-scheduler ask the real advisor; NODES=n and PODS=n for fewer, VOLCANO=release; needs Go
	$(BIN)/python -m e2e.volcano $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS)) $(if $(VOLCANO),--volcano $(VOLCANO))

e2e-airflow: $(STAMP) ## a real Airflow runs every DAG on a small site, with commands killed mid-way; some ten minutes
	$(BIN)/python -m e2e.airflow

e2e-stock: $(JARS) ## web servers that OpenTelemetry instruments, Redis, node_exporter, a Collector and a noisy neighbour on real cgroups; some ten minutes; needs Go and root
	$(BIN)/python -m e2e.stock

e2e-s3: $(JARS) ## crash rounds, then the whole line, on a bucket of SERVER=gofakes3 or versitygw; ROUNDS=n, SEED=n, CONTROL=1; needs Go; an hour
	$(BIN)/python -m e2e.s3 $(if $(SERVER),--server $(SERVER)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(if $(CONTROL),--control)
	$(if $(CONTROL),,$(BIN)/python -m e2e.s3 $(if $(SERVER),--server $(SERVER)) --line)

search: $(STAMP) ## try settings of the trainer on LAKE=dir, nested by app; OUT=file.json keeps all of it
	$(BIN)/cohabit model tune $(if $(LAKE),--lake $(LAKE)) $(if $(OUT),--out $(OUT))

backtest: $(STAMP) ## the closed loop under all laws, and measured pairs where BENCH_DATA is set; hours; OUT=folder
	scripts/backtest.sh $(BIN)/cohabit $(or $(OUT),backtest)

soak: $(JARS) ## a live cluster is landed, served, proposed for and billed for MINUTES=60; memory, errors, answer times; samples in soak.csv
	$(BIN)/python -m e2e.soak --minutes $(or $(MINUTES),60)

fuzz: $(STAMP) ## feed broken input to everything that reads any; MINUTES=n (30), SEED=n
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

fuzz-decode: $(STAMP) ## decode a million broken messages of all formats; MESSAGES=n for fewer
	$(BIN)/python -m tests.ingest.mutations $(or $(MESSAGES),1000000)

check: $(STAMP) structure words ## format, lint, types, imports, structure, words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

structure: $(STAMP) ## modules per folder, circles, names, long functions, broad excepts, docstrings
	$(BIN)/python scripts/structure.py

words: $(STAMP) ## words of docs/glossary.md that are never used, by place and by word
	$(BIN)/python scripts/words.py

lock: $(STAMP) ## resolve the locks again
	scripts/lock.sh $(BIN)

docs: ## the site of docs/ into site/, strict, in an environment of its own; SERVE=1 shows it on 127.0.0.1:8000
	scripts/docs.sh $(PYTHON) .venv-docs site
	$(if $(SERVE),.venv-docs/bin/python -m http.server --bind 127.0.0.1 --directory site 8000)

bench-peers: ## public traces and other forecasters for benchmarks, in an environment of their own
	scripts/bench_peers.sh $(PYTHON) .venv-bench

helm-chart: $(STAMP) ## write the templates of the Helm chart from the manifests again
	$(BIN)/python scripts/helm_chart.py

sbom: ## the packages of both images as CycloneDX into dist/sbom, by a tool in an environment of its own
	scripts/sbom.sh $(PYTHON) .venv-sbom dist/sbom

reference: $(STAMP) ## write the pages of docs/ that are made from the code again
	$(BIN)/cohabit admin config reference --into docs

wheel: $(STAMP) ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

wheel-serve: $(STAMP) ## install the wheel with [serve] alone into an empty environment and let it serve
	scripts/check_serve_extra.sh $(BIN) $(PYTHON)

clean: ## remove everything that was made here
	rm -rf $(VENV) .venv-docs .venv-airflow .venv-sbom .venv-stock .venv-bench site dist .run .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(STAMP): $(LOCKS) pyproject.toml scripts/setup.sh scripts/environment.sh
	scripts/setup.sh $(PYTHON) $(VENV)
	touch $@

$(JARS): $(STAMP) ingest/devkafka/jars.sha256 ingest/devkafka/jars.py
	$(BIN)/python -m ingest.devkafka.jars
	touch $@
