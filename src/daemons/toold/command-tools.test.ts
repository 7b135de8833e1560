// Tools that operators declare: found wrong before they exist, filled in without ever becoming
// something else, and offered like every other.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { openTestBox, type TestBox } from '../../../test/support/test-box.ts';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { readYaml } from '../../platform/yaml-file.ts';
import { Declaration } from './command-tools/declaration.ts';
import { makeCommandTool, type PlaceRequest } from './command-tools/make.ts';
import { openCommandTools } from './command-tools.ts';
import type { ExecResult } from './tools/box.ts';

const BASE = `name: service.restart
description: Restart a service.
risk: high
reversibility: irreversible
idempotent: false
`;
const restart = `${BASE}argv: [/usr/bin/restart, '{service}', '--count={count}', { if: tag, add: [--tag, '{tag}'] }]
input:
  service: { type: string, pattern: '[a-z-]+' }
  count: { type: integer, min: 1, max: 9, default: 2 }
  tag: { type: string, enum: [blue, green], optional: true }
`;

function declare(text: string): Declaration {
  const result = readYaml(text, 'x.yaml', Declaration);
  assert.ok(result.ok, JSON.stringify(result));
  return result.value;
}
const asked: PlaceRequest[] = [];
const done = (more: Partial<ExecResult> = {}): ExecResult => ({
  exitCode: 0,
  signal: null,
  endedBy: null,
  stdout: Buffer.from('done\n'),
  stderr: Buffer.alloc(0),
  stdoutTruncated: false,
  stderrTruncated: false,
  wallMs: 1,
  networkDenied: [],
  ...more,
});
let answer: ExecResult = done();
const places = {
  host: {
    async run(_: unknown, request: PlaceRequest) {
      asked.push(request);
      return answer;
    },
  },
};
const make = (text: string) => makeCommandTool(declare(text), places);

let world: TestBox;
before(async () => {
  world = await openTestBox();
});
after(() => world.close());

describe('a declaration', () => {
  const wrong: Record<string, { text: string; line: number | null; says: RegExp; hint?: RegExp }> =
    {
      'an unknown key': {
        text: `${restart}timout_s: 3\n`,
        line: 11,
        says: /unknown key timout_s/,
        hint: /timeout_s/,
      },
      'an unknown input': {
        text: restart.replace("'{service}'", "'{servce}'"),
        line: 6,
        says: /\{servce\} is not among the inputs; did you mean service/,
      },
      'a program that is an input': {
        text: restart.replace('/usr/bin/restart', "'{service}'"),
        line: 6,
        says: /the program itself must be fixed/,
      },
      'an input that may be absent, used as if it were there': {
        text: restart
          .replace('{ if: tag, add: [--tag, ', '--tag, ')
          .replace("'{tag}'] }", "'{tag}'"),
        line: 6,
        says: /may be absent/,
      },
      'an input used nowhere': {
        text: `${restart}  more: { type: boolean }\n`,
        line: 11,
        says: /used nowhere/,
      },
      'a string of any form': {
        text: restart.replace(", pattern: '[a-z-]+'", ''),
        line: 8,
        says: /pattern or an enum/,
      },
      'a pattern that is none': {
        text: restart.replace('[a-z-]+', '('),
        line: 8,
        says: /not a regular expression/,
      },
      'a number that could be an option': {
        text: restart.replace("'--count={count}'", "'{count}'").replace('min: 1', 'min: -1'),
        line: 9,
        says: /taken for an option/,
      },
      'paths for a box': {
        text: `${restart}read: [/etc]\n`,
        line: null,
        says: /a box has its own/,
      },
      'a program found by PATH on the host': {
        text: `${restart.replace('/usr/bin/restart', 'restart')}place: host\n`,
        line: 6,
        says: /absolute path/,
      },
      'a shell string for argv': {
        text: restart.replace(/argv: .*\n/, 'argv: restart {service} {count} {tag}\n'),
        line: 6,
        says: /argv/,
      },
      'a level that is not given': { text: `${restart}level: L3\n`, line: 11, says: /level/ },
    };
  for (const [name, { text, line, says, hint }] of Object.entries(wrong)) {
    it(`is refused for ${name}, with its line`, () => {
      const result = readYaml(text, 'x.yaml', Declaration);
      assert.ok(!result.ok);
      const [first] = result.problems;
      assert.match(result.problems.map(({ message }) => message).join('\n'), says);
      if (line !== null) assert.equal(first!.line, line);
      if (hint !== undefined) assert.match(first!.hint, hint);
    });
  }
});

it('the example in the docs is right', () => {
  const page = readFileSync(new URL('../../../docs/command-tools.md', import.meta.url), 'utf8');
  const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const tool = makeCommandTool(declare(example), places);
  assert.deepEqual([tool.name, tool.approval], ['staging.deploy', 'required']);
  assert.deepEqual(tool.input.parse({ branch: 'fix/slow' }), { branch: 'fix/slow', replicas: 2 });
});

describe('its arguments', () => {
  it('are typed, and shown to a model as a schema', () => {
    const { input, view } = make(restart);
    assert.deepEqual(input.parse({ service: 'web' }), { service: 'web', count: 2 });
    const bad = [
      {},
      { service: 'Web' },
      { service: 'web\n' },
      { service: 'web; rm -rf /' },
      { service: 'web', count: 10 },
      { service: 'web', count: '2' },
      { service: 'web', tag: 'red' },
      { service: 'web', more: 1 },
    ];
    for (const one of bad) assert.equal(input.safeParse(one).success, false, JSON.stringify(one));
    assert.deepEqual(view.capabilities, ['service.restart']);
    assert.deepEqual(Object.keys(view.input_schema.properties as object), [
      'service',
      'count',
      'tag',
    ]);
  });

  it('a value is never an option, unless everything before it says so', () => {
    const { input } = make(restart);
    assert.equal(input.safeParse({ service: '-rf' }).success, false);
    const behind = make(restart.replace("'{service}'", "'--', '{service}'"));
    assert.equal(behind.input.safeParse({ service: '-rf' }).success, true);
    // What stands before it only sometimes does not protect it.
    const sometimes = restart.replace("'{service}'", "{ if: tag, add: ['--'] }, '{service}'");
    assert.equal(make(sometimes).input.safeParse({ service: '-rf' }).success, false);
  });

  it('any value stays one argument', async () => {
    const text = restart.replace("'[a-z-]+'", "'[^-].*'");
    const tool = make(`${text}place: host\n`);
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 60 }), async (service) => {
        const parsed = tool.input.safeParse({ service });
        if (!parsed.success) return;
        await tool.perform(parsed.data, world.context);
        assert.deepEqual(asked.at(-1)!.argv, ['/usr/bin/restart', service, '--count=2']);
      }),
    );
  });
});

describe('a declared tool', () => {
  const echo = `${BASE}argv: [printf, '%s|', '{service}', { if: tag, add: ['{tag}'] }]
input:
  service: { type: string, pattern: '.*' }
  tag: { type: string, enum: [blue], optional: true }
`;

  it('runs in the box with what was given', async () => {
    const tool = make(echo);
    assert.equal(tool.box, 'write');
    const shown = await world.result(tool, { service: '$(id) `id` "x"', tag: 'blue' });
    assert.equal(shown.stdout, '$(id) `id` "x"|blue|');
    const preview = await tool.preview!({ service: 'a b', count: 2 }, world.context);
    assert.equal(preview, '"printf" "%s|" "a b"\n');
  });

  it('takes nothing for an option, in the preview either, and behind an empty value', () => {
    const fits = (text: string, input: object) => make(text).input.safeParse(input).success;
    const input = "input: { ref: { type: string, pattern: '[a-z-]*' } }\n";
    const shown = `${BASE}argv: [/bin/x, '--ref={ref}']\npreview: [git, diff, '{ref}']\n${input}`;
    assert.deepEqual(
      [fits(shown, { ref: 'main' }), fits(shown, { ref: '--ext-diff' })],
      [true, false],
    );
    const two = `${BASE}argv: [/bin/x, '{a}{b}']\ninput: { a: { type: string, pattern: '[a-z]*' }, b: { type: string, pattern: '[a-z-]*' } }\n`;
    assert.deepEqual([fits(two, { a: '', b: 'x' }), fits(two, { a: '', b: '-x' })], [true, false]);
  });

  it('shows by git what is there, whatever the repository says', async () => {
    const repo = join(world.workspace, 'app');
    const git = (...args: string[]) =>
      execFileSync('git', ['-C', repo, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
        encoding: 'utf8',
      }).trim();
    mkdirSync(repo);
    git('init', '-q', '-b', 'main');
    const commit = (text: string): string => {
      writeFileSync(join(repo, 'app.js'), text);
      git('add', '.');
      git('commit', '-q', '-m', 'x');
      return git('rev-parse', 'HEAD');
    };
    commit('one\n');
    git('switch', '-q', '-c', 'fix');
    const evil = commit('evil\n');
    git('switch', '-q', '--detach', 'main');
    const nice = commit('nice\n');
    git('replace', evil, nice);
    const args = ['diff', `main...${evil}`];
    assert.match(git(...args), /\+nice/, 'what plain git is made to show');
    const input = "input: { commit: { type: string, pattern: '[0-9a-f]{40}' } }\n";
    const argv = `argv: [/bin/deploy, '{commit}']\npreview: [git, -C, ${repo}, diff, 'main...{commit}']\n`;
    const preview = make(`${BASE}${argv}${input}`).preview!;
    assert.match(String(await preview({ commit: evil }, world.context)), /\+evil/);
    // No program of the repository's runs, either.
    writeFileSync(join(repo, '.git/info/attributes'), '* diff=liar\n');
    git('config', 'diff.liar.textconv', 'echo nice #');
    git('replace', '-d', evil);
    assert.doesNotMatch(git(...args), /\+evil/);
    assert.match(String(await preview({ commit: evil }, world.context)), /\+evil/);
    rmSync(repo, { recursive: true });
  });

  it('brings what it is declared to bring', () => {
    assert.deepEqual(make(`${restart}brings: [outside]\n`).brings, ['outside']);
  });

  it('runs on the host in a sandbox of exactly what is declared', async () => {
    const more = 'place: host\nread: [/srv/app]\nwrite: [/srv/app/log]\nnetwork: host\n';
    const tool = make(`${restart}${more}timeout_s: 5\nenv: { MODE: quick }\napproval: required\n`);
    assert.deepEqual([tool.approval, tool.box], ['required', undefined]);
    answer = done();
    await world.result(tool, { service: 'web', tag: 'green' });
    const { argv, env, read, write, network, wallMs, level } = asked.at(-1)!;
    assert.deepEqual(argv, ['/usr/bin/restart', 'web', '--count=2', '--tag', 'green']);
    assert.deepEqual([env.MODE, read, write], ['quick', ['/srv/app'], ['/srv/app/log']]);
    assert.deepEqual([network, wallMs, level], ['host', 5_000, 'L2']);
    const declared = true;
    assert.deepEqual(tool.touches!({}), [
      { action: 'file.read', path: '/srv/app', declared },
      { action: 'file.read', path: '/srv/app/log', declared },
      { action: 'file.write', path: '/srv/app/log', declared },
      { action: 'file.delete', path: '/srv/app/log', declared },
    ]);
  });

  it('tells a failure with what the program said, and leaves open what was cut short', async () => {
    const tool = make(`${restart}place: host\n`);
    answer = done({ exitCode: 3, stderr: Buffer.from('no such service\n') });
    await assert.rejects(world.result(tool, { service: 'web' }), {
      code: 'command_failed',
      message: 'service.restart failed with status 3: no such service\ndone',
    });
    const denied = { host: 'a.org', port: 443, reason: 'a.org is not listed', hint: 'Ask for it.' };
    answer = done({ exitCode: 56, stderr: Buffer.from('403\n'), networkDenied: [denied] });
    await assert.rejects(world.result(tool, { service: 'web' }), {
      message: /status 56: 403\ndone\na\.org is not listed\. Ask for it\.$/,
    });
    answer = done({ networkDenied: [denied] });
    assert.deepEqual((await world.result(tool, { service: 'web' })).network_denied, [denied]);
    answer = done({ exitCode: null, endedBy: 'wall' });
    // Not a fault: the broker then asks a person whether it happened.
    await assert.rejects(world.result(tool, { service: 'web' }), { name: 'Error' });
    const again = make(`${restart.replace('idempotent: false', 'idempotent: true')}place: host\n`);
    await assert.rejects(world.result(again, { service: 'web' }), { code: 'limit' });
  });

  it('holds JSON output to its fields', async () => {
    const fields = 'output: { format: json, fields: { p50_ms: { type: number } } }\n';
    const tool = make(`${restart}place: host\n${fields}`);
    answer = done({ stdout: Buffer.from('{"p50_ms": 1.5, "more": 1}') });
    assert.deepEqual(await world.result(tool, { service: 'web' }), { p50_ms: 1.5 });
    answer = done({ stdout: Buffer.from('fast') });
    await assert.rejects(world.result(tool, { service: 'web' }), { code: 'bad_output' });
    answer = done({ stdout: Buffer.from('{"p50_ms": "1"}') });
    await assert.rejects(world.result(tool, { service: 'web' }), /p50_ms/);
  });
});

describe('the directory', () => {
  let dir: string;
  const clock = manualClock(0);
  const open = () =>
    openCommandTools({ dir, taken: new Set(['file.read']), places, clock, log: silentLog });
  const write = (name: string, text: string) =>
    writeFileSync(join(dir, name), text, { mode: 0o600 });
  const names = (set: { tools: { name: string }[] }) => set.tools.map(({ name }) => name);
  beforeEach(() => {
    dir = join(mkdtempSync(join(tmpdir(), 'command-tools-')), 'tools');
    mkdirSync(dir);
  });
  afterEach(() => rmSync(join(dir, '..'), { recursive: true, force: true }));

  it('loads what is right, names what is wrong, and follows changes', async () => {
    write('a.yaml', restart);
    write(
      'b.yaml',
      restart.replace('service.restart', 'service.stop').replace('risk: high', 'risk: huge'),
    );
    write('notes.txt', 'not a tool');
    const tools = await open();
    try {
      assert.deepEqual(names(tools.current()), ['service.restart']);
      const [problem] = tools.current().problems;
      assert.equal(problem!.file, join(dir, 'b.yaml'));
      assert.equal(problem!.line, 3);
      write('b.yaml', restart.replace('service.restart', 'service.stop'));
      await tools.rescan();
      assert.deepEqual(names(tools.current()), ['service.restart', 'service.stop']);
      assert.deepEqual(tools.current().problems, []);
      write('a.yaml', 'half: [');
      await tools.rescan();
      assert.deepEqual(names(tools.current()), ['service.stop']);
    } finally {
      tools.close();
    }
  });

  it('looks by itself, also for a directory that comes later', async () => {
    rmSync(dir, { recursive: true });
    const changed = Promise.withResolvers<void>();
    const onChange = (set: { tools: unknown[] }) => set.tools.length > 0 && changed.resolve();
    const options = { dir, taken: new Set<string>(), places, clock, log: silentLog };
    const tools = await openCommandTools({ ...options, onChange });
    try {
      assert.deepEqual(tools.current(), { tools: [], problems: [] });
      mkdirSync(dir);
      write('a.yaml', restart);
      clock.advance(2_000);
      await changed.promise;
      assert.deepEqual(names(tools.current()), ['service.restart']);
    } finally {
      tools.close();
    }
  });

  it('refuses names that are taken, and files that others could have written', async () => {
    write('a.yaml', restart);
    write('b.yaml', restart);
    write('c.yaml', restart.replace('service.restart', 'file.read'));
    write('d.yaml', restart.replace('service.restart', 'service.d'));
    chmodSync(join(dir, 'd.yaml'), 0o666);
    symlinkSync('/etc/hostname', join(dir, 'e.yaml'));
    const tools = await open();
    try {
      assert.deepEqual(names(tools.current()), ['service.restart']);
      const said = tools.current().problems.map(({ file, message }) => [file.at(-6), message]);
      assert.deepEqual(
        said.map(([name]) => name),
        ['b', 'c', 'd', 'e'],
      );
      assert.match(String(said[1]![1]), /built in/);
      assert.match(String(said[2]![1]), /changed by other users/);
    } finally {
      tools.close();
    }
  });
});
