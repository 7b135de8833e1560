// Adds a toy daemon to a copy of the tree by docs/checklists/add-a-daemon.md: the listed files are
// enough for it to run in both modes, with its configuration, links, docs and tests.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { commonRoutes } from '../../src/platform/common-routes.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import type { DaemonName } from '../../src/wire/daemons.ts';
import type { Route } from '../../src/wire/route.ts';
import { listFiles } from '../../tools/source.ts';
import { callSocket } from '../support/callers.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { projectRoot } from './fixture.ts';
import { MARKER, STEPS } from './greetd.ts';

const FILES_MAX = 10;
const NAME = 'greetd' as DaemonName;
const GENERATED = ['docs/api.md', 'docs/architecture.md', 'docs/openapi.json'];
const NATIVE = ['warden', 'keeper', 'supervisor', 'boxfs'];

const root = freshDir();
const inCopy = (...path: string[]): string => join(root, ...path);

type Ran = { status: number | null; output: string };

function run(args: readonly string[]): Promise<Ran> {
  // Otherwise a test runner in it would consider itself a part of this one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { cwd: root, env });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
  return new Promise((resolve) => child.on('close', (status) => resolve({ status, output })));
}
const runTool = (name: string, ...args: string[]) => run([inCopy('tools', name), ...args]);

/** Checks the types of these folders and of what they import. */
function checkTypes(...folders: string[]): Promise<Ran> {
  const include = folders.map((folder) => `../${folder}`);
  const config = inCopy('build', 'tsconfig.json');
  writeFileSync(config, JSON.stringify({ extends: '../tsconfig.json', include }));
  return run(['node_modules/typescript/bin/tsc', '-p', config, '--pretty', 'false']);
}

async function passes(ran: Promise<Ran>): Promise<void> {
  const { status, output } = await ran;
  assert.equal(status, 0, output);
}

before(() => {
  // Without the C sources the build leaves the programs in C as they are.
  for (const path of listFiles(projectRoot))
    if (!path.startsWith('native/')) cpSync(join(projectRoot, path), inCopy(path));
  for (const name of NATIVE) cpSync(join(projectRoot, 'build', name), inCopy('build', name));
  symlinkSync(join(projectRoot, 'node_modules'), inCopy('node_modules'));
});

describe('a daemon added by the checklist', () => {
  it('takes no more files than the checklist lists', () => {
    const page = readFileSync(join(projectRoot, 'docs/checklists/add-a-daemon.md'), 'utf8');
    const listed = [...page.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, path]) =>
      path!.replace('<name>', NAME),
    );
    assert.deepEqual(
      STEPS.map(({ path }) => path),
      listed,
    );
    assert.ok(listed.length <= FILES_MAX, `${listed.length} files`);
  });

  it('is reported by the types in each list of src where it is missing', async () => {
    STEPS[0]!.apply(root);
    const { status, output } = await checkTypes('src/entry', 'src/wire');
    assert.notEqual(status, 0);
    const reported = new Set([...output.matchAll(/^([\w/.-]+)\(/gm)].map(([, path]) => path!));
    for (const { path } of STEPS.filter((step) => existsSync(inCopy(step.path))).slice(1))
      if (path.startsWith('src/')) assert.ok(reported.has(path), `${path} in\n${output}`);
  });

  it('passes the checks once every step is done, and changes no other file by hand', async () => {
    for (const { apply } of STEPS.slice(1)) apply(root);
    await passes(runTool('docs.ts', '--write'));
    await Promise.all([
      passes(checkTypes('src', 'test/wire')),
      passes(runTool('check-layers.ts')).then(() => passes(runTool('tidy.ts'))),
    ]);
    const isSame = (path: string): boolean =>
      existsSync(join(projectRoot, path)) &&
      readFileSync(join(projectRoot, path)).equals(readFileSync(inCopy(path)));
    assert.deepEqual(
      listFiles(root).filter((path) => !isSame(path)),
      [...STEPS.map(({ path }) => path), ...GENERATED].sort(),
    );
  });

  it('is in the docs', () => {
    const page = (path: string): string => readFileSync(inCopy(path), 'utf8');
    assert.match(page('docs/architecture.md'), /\| greetd \| auditd-ai: append, own \|/);
    assert.match(page('docs/api.md'), /### GET \/v1\/greetings\/\{name\}/);
    assert.match(page('docs/openapi.json'), /"greetd\.greet"/);
  });

  it('has its section of the configuration', async () => {
    const { loadRuntimeConfig } = (await import(inCopy('src/entry/options.ts'))) as {
      loadRuntimeConfig(args: object): Record<string, unknown>;
    };
    const configFile = inCopy('agentd.yaml');
    const load = (text: string) => {
      writeFileSync(configFile, text);
      return loadRuntimeConfig({ stateDir: root, configFile });
    };
    assert.deepEqual(load('').greetd, { salutation: 'Hello' });
    assert.deepEqual(load('greetd: { salutation: Hi }').greetd, { salutation: 'Hi' });
    const wrong = () => load('greetd: { salutatio: Hi }');
    assert.throws(wrong, { code: 'bad_config', message: /unknown key greetd\.salutatio$/ });
  });

  it('builds, and its code is only in chunks that are loaded on demand', async () => {
    await passes(runTool('build.ts'));
    const bundles = readdirSync(inCopy('build')).filter((name) => name.endsWith('.mjs'));
    const holding = bundles.filter((name) =>
      readFileSync(inCopy('build', name), 'utf8').includes(MARKER),
    );
    assert.deepEqual(
      holding.map((name) => name.replace(/-\w+\.mjs$/, '')),
      ['daemon-daemon', 'embedded-daemon'],
    );
  });

  it('passes the tests that every daemon has', async () => {
    await passes(run(['--test', 'src/wire/daemons.test.ts', 'test/repo/config-docs.test.ts']));
    // It has no database, so the rows of snapshots do not apply to it.
    const { status, output } = await run([
      '--test',
      '--test-reporter=tap',
      `--test-name-pattern=${NAME} (has a row|greet:|health:|metrics:)`,
      'test/wire/routes.test.ts',
    ]);
    assert.equal(status, 0, output);
    assert.match(output, /# Subtest: accepts a valid request of operator on both links/);
  });
});

for (const mode of ['embedded', 'split'] as const)
  describe(`the same daemon in ${mode} mode`, () => {
    let runtime: TestRuntime;
    const headers = () => ({ authorization: `Bearer ${runtime.operatorKey}` });
    before(async () => {
      const config = 'greetd: { salutation: Good morning }\n';
      runtime = await startRuntime({ mode, build: inCopy('build'), config, port: 0 });
    });
    after(() => runtime?.remove());

    const call = async (route: Route, params?: Record<string, string>): Promise<unknown> => {
      const socketPath = socketPathFor(runtime.runtimeDir, NAME, 'operator');
      const outcome = await callSocket(socketPath, route, params === undefined ? {} : { params }, {
        headers: headers(),
      });
      assert.ok(outcome.ok, JSON.stringify(outcome));
      return outcome.ok && outcome.value;
    };

    it('responds on its socket, using its configuration and its peer', async () => {
      const { greetdRoutes } = (await import(inCopy('src/wire/greetd.ts'))) as {
        greetdRoutes: { greet: Route };
      };
      const answer = await call(greetdRoutes.greet, { name: 'ann' });
      assert.deepEqual(answer, { greeting: 'Good morning, ann', events: 0 });
      assert.ok(existsSync(socketPathFor(runtime.runtimeDir, 'auditd-ai', `peer-${NAME}`)));
      assert.ok(!existsSync(socketPathFor(runtime.runtimeDir, 'toold', `peer-${NAME}`)));
    });

    it('responds on the port', async () => {
      const url = `http://127.0.0.1:${runtime.info.port}/v1/greetings/ann`;
      const response = await fetch(url, { headers: headers() });
      assert.deepEqual(await response.json(), { greeting: 'Good morning, ann', events: 0 });
    });

    it(`has ${mode === 'split' ? 'its own process' : 'no process of its own'}`, async () => {
      const { pid } = (await call(commonRoutes.health)) as { pid: number };
      assert.equal(pid === runtime.runtimePid, mode === 'embedded');
    });

    it('is in agentctl status', async () => {
      const agentctl = (...more: string[]) =>
        run([inCopy('build/agentctl.mjs'), 'status', '--state', runtime.stateDir, ...more]);
      const { status, output } = await agentctl('--json');
      assert.equal(status, 0, output);
      const { daemons } = (JSON.parse(output) as { status: { daemons: object } }).status;
      assert.equal((daemons as Record<string, string>)[NAME], 'ok');
      const text = (await agentctl()).output;
      assert.match(text, new RegExp(`daemons +${Object.keys(daemons).length} running`));
    });
  });
