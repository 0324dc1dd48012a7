# The only entry. `make` or `make help` lists the targets.
CARGO ?= cargo
AGENT_DIR ?=
PREFIX ?= $(HOME)/.local

.DEFAULT_GOAL := help
.PHONY: help run demo check test doc bench fuzz install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Build and start the watcher on the default agent directory (AGENT_DIR=… for another)
	$(CARGO) build --release --quiet --locked -p watcher
	target/release/watcher run $(if $(AGENT_DIR),--agent-dir "$(AGENT_DIR)")

demo: ## Ten seconds: a scripted harness writes a session, the watcher tails it, a search finds a prompt
	$(CARGO) build --release --quiet --locked -p watcher -p tests --bin watcher --bin demo
	target/release/demo

check: ## Format check and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

test: check ## Everything that can fail: check, unit, integration, documentation and README tests
	$(CARGO) test --workspace --all-features --locked
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --all-features --locked --quiet

doc: ## Build the documentation of the workspace
	$(CARGO) doc --workspace --no-deps --all-features --locked

bench: ## Benchmarks, each beside its physical floor in the same run
	$(CARGO) bench --workspace --locked

fuzz: ## Property tests with many more cases (FUZZ_CASES=100000)
	PROPTEST_CASES=$${FUZZ_CASES:-20000} $(CARGO) test --release --workspace --all-features --locked -- property

install: ## Install the binary, its man pages and shell completions below PREFIX (~/.local)
	$(CARGO) build --release --locked -p watcher
	install -Dm755 target/release/watcher "$(PREFIX)/bin/watcher"
	target/release/watcher man "$(PREFIX)/share/man/man1"
	mkdir -p "$(PREFIX)/share/bash-completion/completions" "$(PREFIX)/share/zsh/site-functions" \
		"$(PREFIX)/share/fish/vendor_completions.d"
	target/release/watcher completions bash > "$(PREFIX)/share/bash-completion/completions/watcher"
	target/release/watcher completions zsh > "$(PREFIX)/share/zsh/site-functions/_watcher"
	target/release/watcher completions fish > "$(PREFIX)/share/fish/vendor_completions.d/watcher.fish"

clean: ## Remove what was built
	$(CARGO) clean
