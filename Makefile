# What people type. Each target first sets up what it needs and says what that is (YES=1: never ask).
NODE  := build/node
setup  = @tools/setup.sh --for
build  = @$(NODE) tools/build.ts --verbose
need   = @test -f $(1) || { echo 'make $@: $(1) is not in this tree'; exit 1; }

##@ Try, test and build
help: ## what there is
	@awk -F ':.*## ' '/^##@ / { printf "%s%s\n", (n++ ? "\n" : ""), substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: ## a team finds and repairs a slow service, and a stranger's line cannot take it over; no key, no network
	$(setup) demo
	$(call need,demo/main.ts)
	$(build)
	@$(NODE) demo/main.ts

test: ## check, build, and every test; T=path runs the tests of one file or folder only
	$(setup) test
ifndef T
	@$(NODE) tools/check.ts
endif
	$(build)
	@$(NODE) tools/test.ts $(T)

test-harnesses: ## coding agents of others in boxes; fetched into the cache once, then part of make test
	$(setup) test
	$(build)
	@$(NODE) test/harnesses/fetch.ts
	@$(NODE) tools/test.ts test/harnesses

check: ## types, lint, layers, tidy, dead code, docs = code
	$(setup) check
	@$(NODE) tools/check.ts

bench: ## every figure, beside its peer and its bar
	$(setup) bench
	$(call need,bench/main.ts)
	$(build)
	@$(NODE) bench/main.ts

fuzz: ## the fuzz and fault tests, for much longer
	$(setup) test
	$(build)
	@$(NODE) test/soak/main.ts --minutes 5
	@FUZZ=long $(NODE) tools/test.ts test/fuzz test/fault test/escape/fuzz-plan.test.ts \
		test/escape/fuzz-frames.test.ts src/daemons/sandboxd/program-connection.test.ts \
		test/escape/leftovers.test.ts test/escape/random-kills.test.ts

soak: ## load and kill -9 for MINUTES (30), with a report by minute; SPLIT=1, JSON=FILE, SEED=N
	$(setup) test
	$(build)
	@$(NODE) test/soak/main.ts --minutes $(or $(MINUTES),30) $(if $(SPLIT),--split) \
		$(if $(JSON),--json $(JSON)) $(if $(SEED),--seed $(SEED))

build: ## the bundles, into build/
	$(setup) cli
	$(build)

native: ## the programs in C, into build/: the warden, and what serves the files of a box
	$(setup) native
	$(build)

docs: ## write the reference pages that are made from the code, and record the demo
	$(setup) check
	@$(NODE) tools/docs.ts --write
	@if $(NODE) tools/build.ts --verbose; then $(NODE) tools/record-demo.ts; \
	else echo 'make docs: the build failed, so the demo was not recorded'; fi

##@ Words of agentctl: each prints the command that it stands for, and runs it
# Values reach the shell as its variables, so that a quote in a goal stays a quote. They count only
# on the command line of make: some shells export a NAME of their own.
AGENTCTL ?= bin/agentctl
$(foreach name,GOAL INSTRUCTIONS MESSAGE MODEL NAME OWNER PERSONA SUBJECT TO,$(if \
	$(filter environment,$(origin $(name))),$(eval override $(name) :=)))
need_value = @test -n "$${$(1)}" || { echo 'make $@: give $(1)=…'; exit 2; }
say = @run() { printf '%s' '$(AGENTCTL)'; for word; do printf " '%s'" "$$word"; done; echo; exec $(AGENTCTL) "$$@"; }; run $(1)

up: ## agentctl up
	$(call say,up)

down: ## agentctl down
	$(call say,down)

restart: ## agentctl restart
	$(call say,restart)

stop: ## agentctl stop NAME; without NAME= it halts every agent
	$(call say,$(if $(NAME),stop "$$NAME",halt))

create: ## agentctl agent create NAME=… --persona PERSONA (coder), with INSTRUCTIONS=… and MODEL=…
	$(call need_value,NAME)
	$(call say,agent create "$$NAME" --persona "$${PERSONA:-coder}" $(if $(INSTRUCTIONS),--instructions "$$INSTRUCTIONS") $(if $(MODEL),--model "$$MODEL"))

list: ## agentctl list
	$(call say,list)

shell: ## agentctl box run -- bash: a shell in a box; NAME=… as that agent
	$(call say,box run $(if $(NAME),--agent "$$NAME") -- bash)

task: ## agentctl task create GOAL=… --wait
	$(call need_value,GOAL)
	$(call say,task create "$$GOAL" --wait)

task-add: ## agentctl task add GOAL=…, with OWNER=… or for the best match
	$(call need_value,GOAL)
	$(call say,task add "$$GOAL" $(if $(OWNER),--owner "$$OWNER"))

send: ## agentctl send TO=… MESSAGE=…, to a person with SUBJECT=…
	$(call need_value,TO)
	$(call need_value,MESSAGE)
	$(call say,send "$$TO" "$$MESSAGE" $(if $(SUBJECT),--subject "$$SUBJECT"))

status: ## agentctl status
	$(call say,status)

health: ## agentctl doctor: what works and what does not; fails if something is broken
	$(call say,doctor)

logs: ## agentctl logs NAME=… --follow; without NAME= all that happens: agentctl audit tail
	$(call say,$(if $(NAME),logs "$$NAME",audit tail) --follow)

##@ Clean up
clean: ## remove what was built; what was downloaded stays
	@rm -rf build coverage

.PHONY: help demo test test-harnesses check bench fuzz soak build native docs clean \
	up down restart stop create list shell task task-add send status health logs
