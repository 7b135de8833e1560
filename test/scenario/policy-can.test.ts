// agentctl policy can, against a real runtime: its answer is what a call would get.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { freshDir, ROOT, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const RULES = `@why("docs are written elsewhere")
forbid (principal, action == Action::"file.write", resource in Path::"/workspace/docs");
@ask("main is what customers see")
forbid (principal, action == Action::"tool.call", resource == Tool::"git.branch")
when { context.arguments has name && context.arguments.name == "main" };
`;
const SPEC = `{ tools: { deny: [git.worktree], allow: [file.read, file.write_workspace,
    git.write_branch, http.fetch, metrics.read] },
  network: { mode: restricted, allow: [docs.example.com] } }`;

/** Words after the agent, the exit status, and what is printed. */
const CASES: [words: string, code: number, says: RegExp][] = [
  ['file.write path=a.txt text=x', 0, /^yes\n.*manifest:coder:tool\.call/s],
  ['file.write', 0, /Only the tool itself was decided/],
  [
    'file.write path=docs/a.txt text=x',
    3,
    /^no\n +file\.write \S+: site:10\.cedar:1 \(10\.cedar:1\): docs.*rule at 10\.cedar:1/s,
  ],
  ['file.read path=/etc/passwd', 3, /base:etc.*\nto allow it: nothing: base:etc is built in/s],
  ['file.read path=/srv/x', 3, /to allow it: add \/srv\/x to spec\.filesystem\.read of coder/],
  ['shell.exec command=ls', 3, /toold:granted.*add shell\.exec to spec\.tools\.allow/s],
  ['git.worktree', 3, /change spec\.tools\.deny: git\.worktree of coder/],
  ['git.branch action=create name=main', 4, /^ask\n.*main is what customers see/s],
  ['git.branch action=create name=topic', 0, /^yes/],
  ['http.fetch url=https://docs.example.com/ method=POST', 4, /base:changing-request/],
  ['http.fetch url=https://docs.example.com/', 0, /^yes/],
  ['http.fetch url=https://docs.example.com/ method=POST --mark outside', 4, /base:outside-sends/],
  ['http.fetch url=https://evil.org/', 3, /add evil\.org to spec\.network\.allow/],
];

describe('policy can', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    const base = freshDir();
    const policies = join(base, 'state', 'policies');
    mkdirSync(policies, { recursive: true, mode: 0o700 });
    writeFileSync(join(policies, '10.cedar'), RULES, { mode: 0o600 });
    runtime = await startRuntime({ base, agents: { coder: manifestOf('coder', SPEC) } });
  });
  after(() => runtime.remove());

  const run = (...words: string[]) =>
    agentctl(words, {
      main: join(ROOT, 'build', 'agentctl.mjs'),
      state: runtime.stateDir,
      env: runtime.env,
    });
  const can = (...words: string[]) => run('policy', 'can', 'coder', ...words);

  for (const [words, code, says] of CASES)
    it(`coder ${words}`, async () => {
      const ran = await can(...words.split(' '));
      assert.equal(ran.code, code, ran.stdout + ran.stderr);
      assert.match(ran.stdout, says);
    });

  it('takes one JSON object, and prints JSON', async () => {
    const ran = await can('file.write', '{"path":"docs/a","text":"x"}', '--json');
    assert.equal(ran.code, 3);
    const { can: view } = JSON.parse(ran.stdout) as { can: { answer: string; needed: string[] } };
    assert.deepEqual(
      [view.answer, view.needed],
      ['deny', ['change or remove the rule at 10.cedar:1']],
    );
  });

  it('--list shows every tool of the agent, and those that do not exist', async () => {
    const ran = await can('--list');
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(ran.stdout, /file\.write +yes +manifest:coder/);
    assert.match(ran.stdout, /metrics\.read +– +no tool yet/);
    assert.match(ran.stdout, /task\.finish +yes +base:basic-tools/);
    assert.doesNotMatch(ran.stdout, /shell\.exec|git\.worktree/);
  });

  it('says what is wrong with its own words', async () => {
    for (const [words, code, says] of [
      [['file.write', 'path'], 2, /path is not key=value/],
      [
        ['file.write', 'path=1', 'size=x'],
        2,
        /arguments are invalid.*agentctl tool show file\.write/s,
      ],
      [['no.tool'], 5, /tool no\.tool not found/],
      [[], 2, /needs TOOL/],
      [['file.write', '{bad'], 2, /not one JSON object/],
    ] as const) {
      const ran = await can(...words);
      assert.equal(ran.code, code, ran.stdout + ran.stderr);
      assert.match(ran.stderr, says);
    }
    assert.equal((await run('policy', 'can', 'nobody', 'file.read')).code, 5);
  });

  it('help has an example, and completion offers agents, tools and marks', async () => {
    const help = await run('policy', 'can', '--help');
    assert.match(help.stdout, /AGENT \[TOOL\] \[ARGS…\]/);
    assert.match(help.stdout, /Example: agentctl policy can coder git\.branch/);
  });
});
