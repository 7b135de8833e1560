// Tests the program: its ready line, both kinds of address, and every way to stop it.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { parseCommandLine } from './command-line.ts';

const program = join(import.meta.dirname, 'main.ts');

type RunningServer = { child: ChildProcess; address: string };

async function start(...args: string[]): Promise<RunningServer> {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface({ input: child.stdout! }), 'line');
  const ready = JSON.parse(String(line));
  assert.equal(ready.ready, true);
  return { child, address: ready.address };
}

async function waitForExit(child: ChildProcess): Promise<number | string | null> {
  if (child.exitCode !== null) return child.exitCode;
  const [code, signal] = await once(child, 'exit');
  return code ?? signal;
}

async function runToFailure(
  ...args: string[]
): Promise<{ code: number | string | null; stderr: string }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const [code, signal] = await once(child, 'close');
  return { code: code ?? signal, stderr };
}

function makeScratchDir(context: { after(clean: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'rehearsal-'));
  context.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function getModels(socketPath: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: 'Bearer k' };
    request({ socketPath, path: '/v1/models', headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

test('listens on a free port, responds, and stops on SIGTERM', async () => {
  const { child, address } = await start('--listen', '127.0.0.1:0');
  assert.match(address, /^127\.0\.0\.1:\d+$/);
  const response = await fetch(`http://${address}/v1/models`, {
    headers: { authorization: 'Bearer k' },
  });
  assert.equal(response.status, 200);
  child.kill('SIGTERM');
  assert.equal(await waitForExit(child), 0);
});

test('stops on SIGTERM during an endless response', async () => {
  const { child, address } = await start();
  const response = await fetch(`http://${address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer k' },
    body: JSON.stringify({
      model: 'rehearsal-large',
      messages: [{ role: 'user', content: 'rehearse: endless' }],
    }),
  });
  child.kill('SIGTERM');
  assert.equal(await waitForExit(child), 0);
  await assert.rejects(response.text());
});

test('--exit-with-stdin: stops when standard input closes', async () => {
  const { child } = await start('--exit-with-stdin');
  child.stdin!.end();
  assert.equal(await waitForExit(child), 0);
});

test('listens on a socket, and replaces a stale one after a kill', async (context) => {
  const path = join(makeScratchDir(context), 'model.sock');
  const first = await start('--listen', path);
  assert.equal(first.address, path);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(await getModels(path), 200);
  const second = await runToFailure('--listen', path);
  assert.equal(second.code, 6);
  assert.match(second.stderr, /cannot listen/);
  first.child.kill('SIGKILL');
  await waitForExit(first.child);
  assert.ok(existsSync(path));
  const third = await start('--listen', path);
  assert.equal(await getModels(path), 200);
  third.child.kill('SIGTERM');
  assert.equal(await waitForExit(third.child), 0);
  assert.ok(!existsSync(path));
});

test('refuses invalid usage and invalid screenplays, and prints the reason', async (context) => {
  const usage = await runToFailure('--listen', '0.0.0.0:80');
  assert.equal(usage.code, 2);
  assert.match(usage.stderr, /neither a path nor a loopback address/);
  const directory = makeScratchDir(context);
  writeFileSync(join(directory, 'a.yaml'), 'plays:\n  - play: x\n    anwsers: []\n');
  const broken = await runToFailure('--screenplays', directory);
  assert.equal(broken.code, 78);
  assert.match(
    broken.stderr,
    /a\.yaml:3: unknown key "anwsers" in a play; did you mean "answers"\?/,
  );
});

test('parses the command line', () => {
  const rows: [args: string[], expected: RegExp][] = [
    [['--listen', 'example.org:80'], /neither a path nor a loopback/],
    [['--listen', '127.0.0.1:70000'], /neither a path nor a loopback/],
    [['--listen', `/${'x'.repeat(120)}`], /longer than 107 bytes/],
    [['--lisen', 'x'], /Unknown option '--lisen'/],
    [['word'], /Unexpected argument 'word'/],
    [['--help'], /^help$/],
  ];
  for (const [args, expected] of rows) assert.match(String(parseCommandLine(args)), expected);
  assert.deepEqual(parseCommandLine(['--listen', '[::1]:80', '--screenplays', 'a']), {
    address: { kind: 'tcp', host: '::1', port: 80 },
    screenplays: ['a'],
    exitsOnStdinEnd: false,
    isCheckOnly: false,
  });
});
