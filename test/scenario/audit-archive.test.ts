// Old segments of the audit log are archived while work goes on. The log verifies with and without
// the archives; archived events can be read and proved; a changed or missing archive is named, and
// a wrong checkpoint is refused.
import assert from 'node:assert/strict';
import {
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { ProofView, SegmentView } from '../../src/wire/auditd-ai.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import { ctl } from '../support/backups.ts';
import { FILLER_TASK, type LogFiller, makeFiller, SMALL_SEGMENTS } from '../support/filled-log.ts';
import { isProven } from '../support/independent-verifier.ts';
import { freshDir, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';

type Report = {
  verify: {
    ok: boolean;
    size: number;
    hashed: number;
    archived: { events: number; segments: number; hashed: number };
    remarks: string[];
    verified_earlier: object | null;
    problems: { kind: string; seq: number | null; segment: string | null }[];
  };
};

const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65_534;

describe('archiving the audit log', () => {
  let runtime: TestRuntime;
  let filler: LogFiller;
  const elsewhere = freshDir();
  const to = join(elsewhere, 'archive');
  const kept = join(elsewhere, 'checkpoint');
  mkdirSync(to);
  before(async () => {
    runtime = await startRuntime({ config: JSON.stringify(SMALL_SEGMENTS) });
    filler = makeFiller(runtime);
  });
  after(async () => {
    filler.close();
    await runtime.remove();
    rmSync(elsewhere, { recursive: true, force: true });
  });

  const audit = (...words: string[]) =>
    agentctl(['audit', ...words], { state: runtime.stateDir, env: runtime.env });
  const verify = async (...words: string[]) => {
    const ran = await audit('verify', ...words, '--json');
    return { code: ran.code, ...documentOf<Report>(ran).verify };
  };
  const listSegments = async (): Promise<SegmentView[]> =>
    documentOf<{ segments: SegmentView[] }>(await audit('segments', '--json')).segments;
  const keepCheckpoint = async (): Promise<void> =>
    writeFileSync(kept, (await audit('checkpoint')).stdout);
  const archive = (...words: string[]) =>
    audit('archive', '--checkpoint', kept, '--older-than', '1s', ...words);
  let seen: Map<number, AuditEvent>;

  it('moves what is old and covered by the checkpoint, while tasks run', async () => {
    await filler.fill(4);
    await keepCheckpoint();
    const all = await runtime.audit.events({ query: { limit: 1_000 } });
    seen = new Map(all.events.map((event) => [event.seq, event]));
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    const dry = await archive('--to', to, '--dry-run');
    assert.match(dry.stdout, /^Would archive \d segments/);
    assert.deepEqual(readdirSync(to), []);
    let isLoaded = true;
    const load = (async () => {
      while (isLoaded) await filler.append();
    })();
    const { task } = await runtime.agentd.createTask({ body: { goal: 'Look into it' } });
    const ran = await archive('--to', to);
    isLoaded = false;
    await load;
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
    const archived = (await listSegments()).filter(({ status }) => status === 'archived');
    assert.ok(archived.length >= 4, ran.stderr);
    assert.deepEqual(
      readdirSync(to).sort(),
      archived.map(({ archive }) => archive!.name),
    );
    const files = readdirSync(join(runtime.stateDir, 'audit'));
    for (const { segment } of archived) assert.ok(!files.includes(segment), segment);
    const { events } = await runtime.audit.events({ query: { event: 'audit.archived' } });
    assert.equal(events.length, archived.length);
    assert.equal(events[0]!.data?.location, to);
  });

  it('verifies the live part alone, and everything with the archives', async () => {
    await audit('verify');
    const alone = await verify('--full');
    assert.deepEqual([alone.code, alone.problems], [0, []]);
    assert.ok(alone.archived.events > 0 && alone.archived.hashed === 0);
    const text = (await audit('verify', '--full')).stdout;
    assert.match(text, /events in \d archived segments were NOT hashed/);
    const whole = await verify('--archive', to, '--from', kept);
    assert.deepEqual([whole.code, whole.problems], [0, []]);
    assert.equal(whole.archived.hashed, whole.archived.events);
    assert.equal(whole.hashed, whole.size);
    await filler.append();
    const more = await verify();
    assert.deepEqual([more.code, more.remarks], [0, []]);
    assert.ok(more.verified_earlier !== null, 'it continues from before');
  });

  it('reads archived events, and proves them to a stranger', async () => {
    const short = await audit('task', FILLER_TASK, '--json');
    const { archived } = documentOf<{ archived: number[] }>(short);
    assert.ok(archived.length > 100);
    const read = await audit('task', FILLER_TASK, '--json', '--archive', to);
    const { events } = documentOf<{ events: AuditEvent[] }>(read);
    const seqs = new Set(events.map(({ seq }) => seq));
    for (const seq of archived) assert.ok(seqs.has(seq));
    const seq = archived[50]!;
    const event = events.find((one) => one.seq === seq)!;
    assert.deepEqual(event, seen.get(seq));
    for (const name of [String(seq), event.id]) {
      assert.equal((await audit('prove', name)).code, 5, 'not without the archive');
      const ran = await audit('prove', name, '--archive', to, '--json');
      assert.equal(ran.code, 0, ran.stderr);
      const { proof } = documentOf<{ proof: ProofView }>(ran);
      assert.ok(isProven(proof, proof.vkey));
      assert.equal((JSON.parse(proof.event) as AuditEvent).id, event.id);
    }
  });

  it('names a changed archive and a missing one; without them the damage goes unnoticed', async () => {
    const [first, second] = (await listSegments()).filter(({ status }) => status === 'archived');
    const bad = join(elsewhere, 'bad');
    cpSync(to, bad, { recursive: true });
    const file = join(bad, second!.archive!.name);
    const text = gunzipSync(readFileSync(file)).toString();
    const seq = second!.first_seq + 7;
    const changed = text.replace(new RegExp(`(\\{"seq":${seq},.*)"filler"`), '$1"forged"');
    assert.notEqual(changed, text);
    writeFileSync(file, gzipSync(changed));
    const forged = await verify('--archive', bad);
    assert.deepEqual(
      [forged.code, forged.problems.map(({ kind, seq, segment }) => [kind, seq, segment])],
      [1, [['changed', seq, second!.archive!.name]]],
    );
    rmSync(join(bad, first!.archive!.name));
    copyFileSync(join(to, second!.archive!.name), file);
    const missing = await verify('--archive', bad);
    assert.deepEqual(
      [missing.code, missing.problems.map(({ kind, segment }) => [kind, segment])],
      [1, [['archive_missing', first!.archive!.name]]],
    );
    assert.equal((await verify('--full')).code, 0, 'the control: the log alone cannot tell');
  });

  it('archives nothing against a checkpoint of another log or a changed one', async () => {
    await filler.fill(2);
    await keepCheckpoint();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    const before = (await listSegments()).filter(({ status }) => status === 'archived').length;
    const wrong = join(elsewhere, 'wrong');
    const note = readFileSync(kept, 'utf8');
    for (const [text, message] of [
      [note.replace(/^(.*\n)(\d+)\n/, '$199999999\n'), /not signed by a key of this log/],
      [note.replace('agentd.local', 'other.local'), /of the log other\.local/],
    ] as const) {
      writeFileSync(wrong, text);
      const target = ['--older-than', '1s', '--to', to];
      const ran = await audit('archive', '--checkpoint', wrong, ...target);
      assert.equal(ran.code, 2, ran.stdout);
      assert.match(ran.stderr, message);
    }
    assert.equal(
      (await listSegments()).filter(({ status }) => status === 'archived').length,
      before,
    );
    const good = await archive('--command', `cat > ${to}/$AGENTD_ARCHIVE_NAME`);
    assert.equal(good.code, 0, good.stderr);
    assert.ok((await listSegments()).filter(({ status }) => status === 'archived').length > before);
  });

  it('a copy verifies elsewhere, and the runtime starts again on what is left', async () => {
    const copy = join(elsewhere, 'copy');
    assert.equal((await audit('export', copy)).code, 0);
    const alone = await agentctl(['audit', 'verify', copy], { env: runtime.env });
    assert.equal(alone.code, 0, alone.stdout);
    const whole = await verify(copy, '--archive', to, '--from', kept);
    assert.deepEqual([whole.code, whole.hashed], [0, whole.size]);
    await runtime.stop();
    runtime = await runtime.restart();
    const { task } = await runtime.agentd.createTask({ body: { goal: 'Look again' } });
    assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
    const after = await verify('--archive', to);
    assert.deepEqual([after.code, after.problems], [0, []]);
  });
});

/** As root the daemons have a user of their own; otherwise the runtime belongs to its user. */
for (const uid of IS_ROOT ? [undefined, NOBODY] : [undefined])
  describe(`archiving and restoring by ${uid ?? 'this user'}`, () => {
    let runtime: TestRuntime;
    let filler: LogFiller;
    const base = freshDir();
    const to = join(base, 'archive');
    const backup = join(base, 'backup');
    before(async () => {
      const retention = { audit: { archive_dir: to } };
      const config = JSON.stringify({ ...SMALL_SEGMENTS, retention });
      runtime = await startRuntime({ base, config, ...(uid === undefined ? {} : { uid }) });
      filler = makeFiller(runtime);
      for (const dir of [to, backup]) {
        mkdirSync(dir);
        if (uid !== undefined) chownSync(dir, uid, uid);
      }
    });
    after(async () => {
      filler.close();
      await runtime.remove();
    });

    const ctlOk = async (...words: string[]): Promise<string> => {
      const ran = await ctl(runtime, words, { uid });
      assert.equal(ran.code, 0, `${words.join(' ')}: ${ran.stdout}${ran.stderr}`);
      return ran.stdout;
    };
    const verifyAll = async (kept: string): Promise<void> => {
      for (const words of [[], ['--full'], ['--archive', to], ['--from', kept]])
        await ctlOk('audit', 'verify', ...words);
      await ctlOk('audit', 'prove', '7', '--archive', to);
    };

    it('a restored log verifies, and proves archived events', async () => {
      await filler.fill(2);
      const kept = join(base, 'checkpoint');
      writeFileSync(kept, await ctlOk('audit', 'checkpoint'));
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      await ctlOk('audit', 'archive', '--checkpoint', kept, '--older-than', '1s', '--to', to);
      const count = readdirSync(to).length;
      assert.ok(count >= 2);
      await verifyAll(kept);
      await ctlOk('backup', backup);
      await ctlOk('backup', 'verify', backup);
      filler.close();
      await runtime.stop();
      rmSync(runtime.stateDir, { recursive: true });
      await ctlOk('restore', backup);
      runtime = await runtime.restart();
      const { task } = await runtime.agentd.createTask({ body: { goal: 'Look again' } });
      assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
      await verifyAll(kept);
      const { segments, automatic } = await runtime.audit.listSegments({ query: { limit: 1_000 } });
      assert.equal(segments.filter(({ status }) => status === 'archived').length, count);
      assert.equal(automatic?.location, to);
    });
  });
