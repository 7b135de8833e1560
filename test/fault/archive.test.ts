// SIGKILL of auditd-ai at each step of archiving, and of agentctl in the middle: a segment is still
// live, or its archive is complete and recorded. No event is lost or doubled, and the same command
// again completes the work.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import { type LogFiller, makeFiller, SMALL_SEGMENTS } from '../support/filled-log.ts';
import { killRequested } from '../support/kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const FAILPOINTS = [
  'auditd-ai.before-archive-record',
  'auditd-ai.after-archive-record',
  'auditd-ai.after-archive-event',
  'auditd-ai.after-archive-remove',
];

describe('killed while the log is archived', () => {
  let runtime: TestRuntime;
  let filler: LogFiller;
  const elsewhere = freshDir();
  const to = join(elsewhere, 'archive');
  const kept = join(elsewhere, 'checkpoint');
  mkdirSync(to);
  before(async () => {
    const config = JSON.stringify(SMALL_SEGMENTS);
    runtime = await startRuntime({ mode: 'split', faults: true, config });
    setInterval(() => killRequested(runtime), 5).unref();
    filler = makeFiller(runtime);
  });
  after(async () => {
    filler.close();
    await runtime.remove();
    rmSync(elsewhere, { recursive: true, force: true });
  });

  const audit = (...words: string[]) =>
    agentctl(['audit', ...words], { state: runtime.stateDir, env: runtime.env });
  const archive = (...words: string[]) =>
    audit('archive', '--checkpoint', kept, '--older-than', '1s', ...words);
  const logDir = () => join(runtime.stateDir, 'audit');

  /** Makes segments that can be archived, and returns the lines of the log. */
  const prepare = async (): Promise<string[]> => {
    await filler.fill(2);
    await eventually('a checkpoint', async () => {
      const { code, stdout } = await audit('checkpoint');
      if (code !== 0) return undefined;
      writeFileSync(kept, stdout);
      return true;
    });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    return readAll();
  };

  /** Every event that is live or archived, in order; one that is both counts twice. */
  const readAll = (): string[] => {
    const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);
    const archived = readFileIfExists(join(logDir(), 'archived.jsonl'));
    const records = linesOf(archived).map(
      (line) => JSON.parse(line) as { archive: { name: string } },
    );
    const live = readdirSync(logDir()).filter((name) => /^audit(-\d+)?\.jsonl$/.test(name));
    return [
      ...records.flatMap(({ archive: { name } }) =>
        linesOf(gunzipSync(readFileSync(join(to, name))).toString()).slice(1),
      ),
      ...live.sort().flatMap((name) => linesOf(readFileSync(join(logDir(), name), 'utf8'))),
    ];
  };
  const readFileIfExists = (file: string): string =>
    existsSync(file) ? readFileSync(file, 'utf8') : '';

  const assertWhole = async (before: readonly string[]): Promise<void> => {
    const lines = readAll();
    assert.deepEqual(lines.slice(0, before.length), before, 'all that was there, once, in order');
    assert.deepEqual(
      lines.map((line) => Number(/^\{"seq":(\d+)/.exec(line)?.[1])),
      lines.map((_, seq) => seq),
    );
    const ran = await audit('verify', '--archive', to, '--json');
    const { verify } = documentOf<{ verify: { problems: unknown[]; ok: boolean } }>(ran);
    assert.deepEqual([verify.ok, verify.problems], [true, []]);
  };
  const isUp = () => eventually('the log to respond', () => runtime.audit.checkpoint({}));

  for (const failpoint of FAILPOINTS) {
    it(`${failpoint}: auditd-ai`, async () => {
      const before = await prepare();
      writeFileSync(join(runtime.stateDir, 'crash-at'), `${failpoint} 0`);
      const ran = await archive('--to', to);
      assert.ok(!existsSync(join(runtime.stateDir, 'crash-at')), 'it was reached');
      assert.notEqual(ran.code, 0, 'the client is told');
      await isUp();
      await assertWhole(before);
      const again = await archive('--to', to);
      assert.equal(again.code, 0, again.stderr);
      await assertWhole(before);
      const recorded = readAll().flatMap((line) => {
        const { event, data } = JSON.parse(line) as AuditEvent;
        return event === 'audit.archived' ? [data?.first_seq] : [];
      });
      const { segments } = await runtime.audit.listSegments({ query: { limit: 1_000 } });
      const archived = segments.filter(({ status }) => status === 'archived');
      assert.deepEqual(
        recorded,
        archived.map(({ first_seq }) => first_seq),
        'each is recorded once',
      );
      assert.ok(segments.filter(({ status }) => status === 'sealed').length < 2);
    });
  }

  it('agentctl, while it writes and after it has written, or its command fails', async () => {
    const before = await prepare();
    const { segments } = await runtime.audit.listSegments({ query: { limit: 1_000 } });
    const countArchived = async (): Promise<number> => {
      const now = await runtime.audit.listSegments({ query: { limit: 1_000 } });
      return now.segments.filter(({ status }) => status === 'archived').length;
    };
    const archived = segments.filter(({ status }) => status === 'archived').length;
    for (const command of [
      'head -c 100 >/dev/null; kill -9 $PPID',
      'cat >/dev/null; kill -9 $PPID',
      'cat >/dev/null; exit 3',
    ]) {
      const ran = await archive('--command', command);
      assert.notEqual(ran.code, 0);
      assert.equal(await countArchived(), archived);
      await assertWhole(before);
    }
    // The rest of an earlier attempt in the directory does not stop the next.
    const oldest = segments.find(({ status }) => status === 'sealed')!;
    writeFileSync(join(to, `.${oldest.segment}.gz.partial`), 'half');
    const again = await archive('--to', to);
    assert.equal(again.code, 0, again.stderr);
    assert.ok((await countArchived()) > archived);
    await assertWhole(before);
  });
});
