// Runs the completion scripts in the shells this machine has.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { MAIN } from '../testing/run-agentctl.ts';

type Case = readonly [typed: readonly string[], offered: readonly string[]];
const CASES: readonly Case[] = [
  [['ta'], ['task']],
  [
    ['artifact', ''],
    ['list', 'get'],
  ],
  [
    ['task', 'list', '--status', 'c'],
    ['completed', 'canceled'],
  ],
  [['task', 'cancel', '--re'], ['--reason']],
];

let dir = '';
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'actl-shell-'));
  const program = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`;
  writeFileSync(join(dir, 'agentctl'), program, { mode: 0o755 });
});
after(() => rmSync(dir, { recursive: true }));

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;
const skip = (shell: string) => ({ skip: has(shell) ? false : `${shell} is not installed` });

/** Starts one shell that loads the completion and then tries every case. */
function check(
  cases: readonly Case[],
  { shell, load, offer }: { shell: string[]; load: string; offer(args: string[]): string },
): void {
  const script = [load, ...cases.map(([typed]) => `${offer([...typed])}\necho ---`)].join('\n');
  const env = { PATH: `${dir}:/usr/bin:/bin`, HOME: dir, AGENTD_STATE: join(dir, 'none') };
  const ran = spawnSync(shell[0]!, [...shell.slice(1), '-c', script], {
    env,
    cwd: dir,
    encoding: 'utf8',
  });
  assert.equal(ran.stderr, '');
  const blocks = ran.stdout.split('---\n').slice(0, -1);
  const found = blocks.map((block) => block.match(/^[^\t\n]+/gm)?.sort() ?? []);
  assert.deepEqual(
    found,
    cases.map(([, offered]) => [...offered].sort()),
  );
}

const quoted = (args: readonly string[]) => args.map((arg) => `'${arg}'`).join(' ');

test('bash', skip('bash'), () => {
  const split: Case = [['task', 'list', '--status', '=', 'rej'], ['rejected']];
  check([...CASES, split], {
    shell: ['bash', '--norc'],
    load: 'source <(agentctl completion bash)',
    offer: (args) => `COMP_WORDS=(agentctl ${quoted(args)}) COMP_CWORD=${args.length}
      _agentctl; printf '%s\\n' "\${COMPREPLY[@]}"`,
  });
});

test('zsh', skip('zsh'), () => {
  const joined: Case = [['task', 'list', '--status=rej'], ['--status=rejected']];
  check([...CASES, joined], {
    shell: ['zsh', '-f'],
    // Its offers go to compadd, which works only on a line that is being typed.
    load: `autoload -U compinit && compinit -u -D
      source <(agentctl completion zsh)
      compadd() { print -l -- "\${(@)found}" }`,
    offer: (args) => `words=(agentctl ${quoted(args)}) CURRENT=${args.length + 1}
      _agentctl`,
  });
});

test('fish', skip('fish'), () => {
  const joined: Case = [['task', 'list', '--status=rej'], ['--status=rejected']];
  const file: Case = [['up', '--config', 'tea'], ['team.yaml']];
  writeFileSync(join(dir, 'team.yaml'), '');
  check([...CASES, joined, file], {
    shell: ['fish', '--no-config'],
    load: 'agentctl completion fish | source',
    offer: (args) => `complete -C 'agentctl ${args.join(' ')}'`,
  });
});
