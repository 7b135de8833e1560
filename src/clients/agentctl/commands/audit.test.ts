// The audit log through the whole program: reading, following, proving, and its files without a
// runtime.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { copyProgram } from '../testing/copied-program.ts';
import { type FakeRuntime, makeStateDir, startFake } from '../testing/fake-runtime.ts';
import { agent as agentView, event, id, task, tool as toolView } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';
import { eventStream } from '../testing/team-script.ts';

let fake: FakeRuntime;
const dir = mkdtempSync(join(tmpdir(), 'actl-a-'));
before(async () => {
  fake = await startFake();
});
after(async () => {
  rmSync(dir, { recursive: true });
  await fake.stop();
});
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });

test('[K14] tail prints the newest events in order, with their times', async () => {
  fake.script({
    'auditd-ai': { events: async () => ({ events: [event(9), event(8)], cursor: null }) },
  });
  const { stdout } = await run('audit', 'tail', '-n', '2');
  assert.match(stdout, /^ +8 .*\d\d:\d\d:\d\d .*\n +9 .*\d\d:\d\d:\d\d /);
  assert.deepEqual(fake.seen.at(-1)?.query, { order: 'desc', limit: 2 });
  const json = await run('audit', 'tail', '--json');
  assert.deepEqual(
    json.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).seq),
    [8, 9],
  );
});

test('[K14] tail -f goes on, and reconnects where the stream broke', async () => {
  const connections: (number | undefined)[] = [];
  fake.script({
    'auditd-ai': {
      events: async ({ query, signal }) => {
        if (query.follow !== '1') return { events: [event(1)], cursor: null };
        connections.push(query.after);
        const first = (query.after ?? 0) + 1;
        return eventStream(
          (async function* (): AsyncGenerator<AuditEvent> {
            if (first <= 3) yield event(first);
            // A slow client gets nothing more.
            else if (!signal.aborted) await once(signal, 'abort');
          })(),
        );
      },
    },
  });
  const ran = await agentctl(['audit', 'tail', '-f', '--json'], {
    state: fake.stateDir,
    watch: ({ stdout }) => (stdout.split('\n').length > 3 ? 'SIGINT' : undefined),
  });
  const seqs = ran.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).seq);
  assert.deepEqual(seqs, [1, 2, 3]);
  assert.deepEqual(connections.slice(0, 2), [1, 2]);
  assert.equal(ran.code, 0);
});

test('[K23] logs -f goes on with the events of that agent alone', async () => {
  fake.script({
    agentd: { getAgent: async () => ({ agent: agentView('planner'), manifest: {} }) },
    'auditd-ai': {
      agent: async () => ({ events: [event(1)], cursor: null }),
      events: async ({ query, signal }) => {
        if (query.follow !== '1') return { events: [event(1)], cursor: null };
        return eventStream(
          (async function* (): AsyncGenerator<AuditEvent> {
            yield event(2, { agent: 'coder' });
            yield event(3);
            if (!signal.aborted) await once(signal, 'abort');
          })(),
        );
      },
    },
  });
  const ran = await agentctl(['logs', 'planner', '-f', '--json'], {
    state: fake.stateDir,
    watch: ({ stdout }) => (stdout.split('\n').length > 2 ? 'SIGINT' : undefined),
  });
  const lines = ran.stdout.trim().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).seq),
    [1, 3],
  );
  assert.equal(ran.code, 0);
});

test('events of a task, an agent or a tool: all pages', async () => {
  const pages = async ({ query }: { query: { cursor?: string | undefined } }) =>
    query.cursor === undefined
      ? { events: [event(2)], cursor: 'next' }
      : { events: [event(1)], cursor: null };
  fake.script({ 'auditd-ai': { task: pages, agent: pages, tool: pages } });
  for (const args of [
    ['task', id('task', 1)],
    ['agent', 'agent:coder'],
    ['tool', 'git.push'],
  ]) {
    const { events } = documentOf<{ events: AuditEvent[] }>(await run('audit', ...args, '--json'));
    assert.deepEqual(
      events.map(({ seq }) => seq),
      [1, 2],
    );
  }
  assert.deepEqual(fake.seen.findLast(({ route }) => route === 'agent')?.params, {
    agent: 'coder',
  });
});

test('an unknown name is an error; a known one without events is not', async () => {
  const none = async () => ({ events: [], cursor: null });
  const notFound = async () => Promise.reject(fault('not_found', 'not found'));
  const audit = { task: none, agent: none, tool: none };
  const queries = [
    ['task', id('task', 1)],
    ['agent', 'coder'],
    ['tool', 'git.push'],
  ] as const;
  fake.script({
    'auditd-ai': audit,
    agentd: { getTask: notFound, getAgent: notFound },
    toold: { listTools: async () => ({ tools: [] }) },
  });
  for (const args of queries) {
    assert.equal((await run('audit', ...args)).code, 5, args[0]);
    const ran = await run('audit', ...args, '--json');
    assert.deepEqual([ran.stdout, JSON.parse(ran.stderr).error.code], ['', 'not_found']);
  }
  fake.script({
    'auditd-ai': audit,
    agentd: {
      getTask: async () => ({ task: task(1) }),
      getAgent: async () => ({ agent: agentView('coder'), manifest: {} }),
    },
    toold: { listTools: async () => ({ tools: [toolView('git.push')] }) },
  });
  for (const args of queries) {
    const ran = await run('audit', ...args);
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(ran.stderr, `No events of ${args[1]}.\n`);
  }
});

test('tail of more than a page reads on', async () => {
  const all = Array.from({ length: 1_500 }, (_, i) => event(i)).toReversed();
  fake.script({
    'auditd-ai': {
      events: async ({ query: { limit = 50, cursor = '0' } }) => {
        const end = Number(cursor) + limit;
        return { events: all.slice(Number(cursor), end), cursor: String(end) };
      },
    },
  });
  const { stdout } = await run('audit', 'tail', '-n', '1200', '--json');
  const seqs = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).seq);
  assert.deepEqual([seqs.length, seqs[0], seqs.at(-1)], [1_200, 300, 1_499]);
});

test('an unknown event: the error says how events are named', async () => {
  fake.script({
    'auditd-ai': { prove: async () => Promise.reject(fault('not_found', 'no event x')) },
  });
  const ran = await run('audit', 'prove', 'x');
  assert.equal(ran.code, 5);
  assert.match(ran.stderr, /no event x \(not_found\)\nUse a number from the first column of/);
});

test('prove, checkpoint and rotate-key print the documents', async () => {
  const proof = {
    event: '{}',
    index: 1,
    size: 2,
    root: 'r',
    hashes: ['h'],
    checkpoint: 'c',
    vkey: 'v',
  };
  fake.script({
    'auditd-ai': {
      prove: async () => proof,
      events: async () => ({ events: [event(7)], cursor: null }),
      checkpoint: async () => ({ size: 2, root: 'r', note: 'log\n2\nr\n\n— log x\n', vkey: 'v' }),
      rotateKey: async () => ({ vkey: 'new', previous: 'old' }),
    },
  });
  assert.deepEqual(JSON.parse((await run('audit', 'prove', 'task_1.ended')).stdout), proof);
  assert.deepEqual(fake.seen.at(-1)?.params, { id: 'task_1.ended' });
  await run('audit', 'prove', '7');
  assert.deepEqual(fake.seen.at(-1)?.params, { id: event(7).id }, 'by number');
  // The note alone on standard output, so that `> FILE` keeps what verify --from reads.
  assert.equal((await run('audit', 'checkpoint')).stdout, 'log\n2\nr\n\n— log x\n');
  assert.match((await run('audit', 'rotate-key')).stdout, /New key {7}new\nPrevious key {2}old\n/);
});

function makeLog(): string {
  const state = makeStateDir();
  const log = join(state, 'audit');
  for (const below of ['keys', 'tree']) mkdirSync(join(log, below), { recursive: true });
  const files = {
    'audit.jsonl': 'b\n{"half',
    'audit-000000000000.jsonl': 'a\n',
    checkpoint: 'log\n2\nroot\n\n— log c2lnbmF0dXJl\n',
    'checkpoints.log': 'notes\n',
    'keys/public.txt': 'vkey\n',
    'keys/signing.pem': 'SECRET',
    'something.db': 'x',
    'tree/L00': 'hashes',
    'tree/L01': 'more',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(log, name), text);
  return state;
}

test('export copies what a verifier needs and never the signing key', async () => {
  const state = makeLog();
  const to = join(dir, 'copy');
  const ran = await agentctl(['audit', 'export', to], { state });
  assert.equal(ran.code, 0, ran.stderr);
  const names = readdirSync(to, { recursive: true }).map(String).sort();
  assert.deepEqual(names, [
    'audit-000000000000.jsonl',
    'audit.jsonl',
    'checkpoint',
    'checkpoints.log',
    'keys',
    'keys/public.txt',
    'tree',
    'tree/L00',
  ]);
  assert.equal(readFileSync(join(to, 'audit.jsonl'), 'utf8'), 'b\n', 'no partial event');
  assert.equal(readFileSync(join(to, 'audit-000000000000.jsonl'), 'utf8'), 'a\n');
  assert.equal(statSync(join(to, 'audit.jsonl')).uid, process.getuid!());
  const again = await agentctl(['audit', 'export', to], { state });
  assert.equal(again.code, 1);
  assert.match(again.stderr, /is not empty \(conflict\)/);
});

test('verify runs the verifier on a directory, without a runtime', async () => {
  const program = copyProgram({
    'daemons/auditd-ai/verify-main.ts':
      'console.log(JSON.stringify(process.argv.slice(2))); process.exit(1);',
  });
  try {
    const state = makeLog();
    const log = join(state, 'audit');
    const { main } = program;
    const own = await agentctl(['audit', 'verify'], { state, main });
    assert.deepEqual([own.code, JSON.parse(own.stdout)], [1, ['--own', log]]);
    const full = await agentctl(['audit', 'verify', log, '--full'], { state, main });
    assert.deepEqual(JSON.parse(full.stdout), ['--own', '--full', log]);
    const from = join(log, 'checkpoint');
    const other = await agentctl(['audit', 'verify', log, '--from', from, '--json'], { main });
    assert.deepEqual(JSON.parse(other.stdout), ['--from', from, '--json', log]);
    assert.equal((await agentctl(['audit', 'verify', dir], { main })).code, 5);
    assert.equal((await agentctl(['audit', 'verify', log, '--from', '/no'], { main })).code, 5);
    const wrong = join(log, 'keys', 'public.txt');
    const ran = await agentctl(['audit', 'verify', log, '--from', wrong], { main });
    assert.deepEqual([ran.code, ran.stdout], [2, ''], 'the log is not reported as broken');
    assert.match(ran.stderr, /public\.txt is not a checkpoint/);
  } finally {
    program.remove();
  }
});
