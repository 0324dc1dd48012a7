# The only entry. `make` or `make help` lists the targets.
CARGO ?= cargo
AGENT_DIR ?=
PREFIX ?= $(HOME)/.local
DESTDIR ?=
ROOT = $(DESTDIR)$(PREFIX)
BINARY ?= target/release/watcher

.DEFAULT_GOAL := help
.PHONY: help run demo check test doc bench fuzz install install-built uninstall clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Build and start the watcher on the default agent directory (AGENT_DIR=… another)
	$(CARGO) build --release --locked -p watcher
	target/release/watcher run $(if $(AGENT_DIR),--agent-dir "$(AGENT_DIR)")

demo: ## Ten seconds: a scripted harness writes a session, a search finds its prompts
	$(CARGO) build --release --locked -p watcher -p examples --bin watcher --bin demo
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

install: ## Install binary, man pages, completions below PREFIX (~/.local; DESTDIR before it)
	$(CARGO) build --release --locked -p watcher
	$(MAKE) --no-print-directory install-built

# What `install` does with the binary that is built, whichever that is.
install-built:
	install -d -m 755 "$(ROOT)/bin" "$(ROOT)/share/man/man1" "$(ROOT)/share/bash-completion/completions" \
		"$(ROOT)/share/zsh/site-functions" "$(ROOT)/share/fish/vendor_completions.d"
	install -m 755 -s "$(BINARY)" "$(ROOT)/bin/watcher"
	"$(BINARY)" man "$(ROOT)/share/man/man1"
	"$(BINARY)" completions bash > "$(ROOT)/share/bash-completion/completions/watcher"
	"$(BINARY)" completions zsh > "$(ROOT)/share/zsh/site-functions/_watcher"
	"$(BINARY)" completions fish > "$(ROOT)/share/fish/vendor_completions.d/watcher.fish"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) \
		echo "$(PREFIX)/bin is not in your PATH yet: export PATH=\"$(PREFIX)/bin:\$$PATH\"" ;; esac

uninstall: ## Remove what install put there; before, `watcher detach` removes what it wrote
	rm -f "$(ROOT)/bin/watcher" "$(ROOT)"/share/man/man1/watcher.1 "$(ROOT)"/share/man/man1/watcher-*.1 \
		"$(ROOT)/share/bash-completion/completions/watcher" "$(ROOT)/share/zsh/site-functions/_watcher" \
		"$(ROOT)/share/fish/vendor_completions.d/watcher.fish"

clean: ## Remove what was built
	$(CARGO) clean
