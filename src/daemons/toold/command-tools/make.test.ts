// Inputs are filled into declared tools without becoming options or shell text, and declared tools
// are used like built-in ones.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { BASE, fakeHost, RESTART } from '../testing/declared-tools.ts';

const host = fakeHost();
let world: TestBox;
before(async () => {
  world = await openTestBox();
});
after(() => world.close());

describe('its arguments', () => {
  it('are typed, and shown to a model as a schema', () => {
    const { input, view } = host.make(RESTART);
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
    const { input } = host.make(RESTART);
    assert.equal(input.safeParse({ service: '-rf' }).success, false);
    const behind = host.make(RESTART.replace("'{service}'", "'--', '{service}'"));
    assert.equal(behind.input.safeParse({ service: '-rf' }).success, true);
    // A `--` that is present only sometimes does not protect it.
    const sometimes = RESTART.replace("'{service}'", "{ if: tag, add: ['--'] }, '{service}'");
    assert.equal(host.make(sometimes).input.safeParse({ service: '-rf' }).success, false);
  });

  it('any value stays one argument', async () => {
    const text = RESTART.replace("'[a-z-]+'", "'[^-].*'");
    const tool = host.make(`${text}place: host\n`);
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 60 }), async (service) => {
        const parsed = tool.input.safeParse({ service });
        if (!parsed.success) return;
        await tool.perform(parsed.data, world.context);
        assert.deepEqual(host.commands.at(-1)!.argv, ['/usr/bin/restart', service, '--count=2']);
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

  it('runs in the box with the given arguments', async () => {
    const tool = host.make(echo);
    assert.equal(tool.box, 'write');
    const shown = await world.result(tool, { service: '$(id) `id` "x"', tag: 'blue' });
    assert.equal(shown.stdout, '$(id) `id` "x"|blue|');
    const preview = await tool.preview!({ service: 'a b', count: 2 }, world.context);
    assert.equal(preview, '"printf" "%s|" "a b"\n');
  });

  it('parses no value as an option, in the preview neither, nor after an empty value', () => {
    const fits = (text: string, input: object) => host.make(text).input.safeParse(input).success;
    const input = "input: { ref: { type: string, pattern: '[a-z-]*' } }\n";
    const shown = `${BASE}argv: [/bin/x, '--ref={ref}']\npreview: [git, diff, '{ref}']\n${input}`;
    assert.deepEqual(
      [fits(shown, { ref: 'main' }), fits(shown, { ref: '--ext-diff' })],
      [true, false],
    );
    const two = `${BASE}argv: [/bin/x, '{a}{b}']\ninput: { a: { type: string, pattern: '[a-z]*' }, b: { type: string, pattern: '[a-z-]*' } }\n`;
    assert.deepEqual([fits(two, { a: '', b: 'x' }), fits(two, { a: '', b: '-x' })], [true, false]);
  });

  it('previews by git the true state, whatever the repository configures', async () => {
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
    const preview = host.make(`${BASE}${argv}${input}`).preview!;
    assert.match(String(await preview({ commit: evil }, world.context)), /\+evil/);
    // No program configured in the repository runs, either.
    writeFileSync(join(repo, '.git/info/attributes'), '* diff=liar\n');
    git('config', 'diff.liar.textconv', 'echo nice #');
    git('replace', '-d', evil);
    assert.doesNotMatch(git(...args), /\+evil/);
    assert.match(String(await preview({ commit: evil }, world.context)), /\+evil/);
    rmSync(repo, { recursive: true });
  });

  it('labels its output as declared', () => {
    for (const key of ['output_labels', 'brings'])
      assert.deepEqual(host.make(`${RESTART}${key}: [outside]\n`).outputLabels, ['outside']);
  });

  it('runs on the host in a sandbox of exactly what is declared', async () => {
    const paths = 'place: host\nread: [/srv/app]\nwrite: [/srv/app/log]\n';
    const more = `${paths}network: ['api.test:8443']\n`;
    const tool = host.make(
      `${RESTART}${more}timeout_s: 5\nenv: { MODE: quick }\napproval: required\n`,
    );
    assert.deepEqual([tool.approval, tool.box], ['required', undefined]);
    host.returns();
    await world.result(tool, { service: 'web', tag: 'green' });
    const { argv, env, read, write, hasNetwork, wallMs, level } = host.commands.at(-1)!;
    assert.deepEqual(argv, ['/usr/bin/restart', 'web', '--count=2', '--tag', 'green']);
    assert.deepEqual([env.MODE, read, write], ['quick', ['/srv/app'], ['/srv/app/log']]);
    assert.deepEqual([hasNetwork, wallMs, level], [true, 5_000, 'L2']);
    assert.deepEqual(tool.outputLabels, ['outside'], 'whatever it fetches');
    const declared = true;
    assert.deepEqual(tool.touches!({}), [
      { action: 'file.read', path: '/srv/app', declared },
      { action: 'file.read', path: '/srv/app/log', declared },
      { action: 'file.write', path: '/srv/app/log', declared },
      { action: 'file.delete', path: '/srv/app/log', declared },
      { action: 'net.connect', host: 'api.test', port: 8_443 },
    ]);
  });

  it("reports a failure with the program's output, and leaves an aborted outcome open", async () => {
    const tool = host.make(`${RESTART}place: host\n`);
    host.returns({ exitCode: 3, stderr: Buffer.from('no such service\n') });
    await assert.rejects(world.result(tool, { service: 'web' }), {
      code: 'command_failed',
      message: 'service.restart failed with status 3: no such service\ndone',
    });
    const denied = { host: 'a.org', port: 443, reason: 'a.org is not listed', hint: 'Ask for it.' };
    const networkDenied = [{ code: 'host' as const, ...denied }];
    host.returns({ exitCode: 56, stderr: Buffer.from('403\n'), networkDenied });
    await assert.rejects(world.result(tool, { service: 'web' }), {
      message: /status 56: 403\ndone\na\.org is not listed\. Ask for it\.$/,
    });
    host.returns({ networkDenied });
    assert.deepEqual((await world.result(tool, { service: 'web' })).network_denied, [denied]);
    host.returns({ exitCode: null, endedBy: 'wall' });
    // Not a fault: toold then asks a person whether it happened.
    await assert.rejects(world.result(tool, { service: 'web' }), { name: 'Error' });
    const again = host.make(
      `${RESTART.replace('idempotent: false', 'idempotent: true')}place: host\n`,
    );
    await assert.rejects(world.result(again, { service: 'web' }), { code: 'limit' });
  });

  it('validates JSON output against its fields', async () => {
    const fields = 'output: { format: json, fields: { p50_ms: { type: number } } }\n';
    const tool = host.make(`${RESTART}place: host\n${fields}`);
    host.returns({ stdout: Buffer.from('{"p50_ms": 1.5, "more": 1}') });
    assert.deepEqual(await world.result(tool, { service: 'web' }), { p50_ms: 1.5 });
    host.returns({ stdout: Buffer.from('fast') });
    await assert.rejects(world.result(tool, { service: 'web' }), { code: 'bad_output' });
    host.returns({ stdout: Buffer.from('{"p50_ms": "1"}') });
    await assert.rejects(world.result(tool, { service: 'web' }), /p50_ms/);
  });
});
