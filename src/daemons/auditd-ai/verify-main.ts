// Verifies an audit directory or a copy of one from the command line. Needs no daemon and no key.
//   verify-main.ts [--own [--full]] [--from FILE]... [--key VKEY]... [--archive DIR]
//                 [--json] [DIR]
// Only reads, unless the directory is a runtime's own log (--own): then it continues from the last
// verification and leaves verified.json for the next.
import { readFileSync, statSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Fault } from '../../wire/errors.ts';
import { VERIFIED_FILE, type VerifiedLog, writeVerified } from './log/verified-file.ts';
import { verifyLog } from './log/verify.ts';
import { verifyOwnLog } from './log/verify-own.ts';
import type { VerifyOptions, VerifyReport } from './log/verify-report.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    own: { type: 'boolean' },
    full: { type: 'boolean' },
    from: { type: 'string', multiple: true },
    key: { type: 'string', multiple: true },
    archive: { type: 'string' },
    json: { type: 'boolean' },
  },
});

// The reader of a pipe may close it early.
process.stdout.on('error', () => process.exit());

/** A changed log may have characters that a terminal would obey. */
function print(line: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be printed
  process.stdout.write(`${line.replace(/[\x00-\x1f\x7f-\x9f]/g, '?')}\n`);
}

const pluralize = (n: number, word: string) => `${n} ${word}${n === 1 ? '' : 's'}`;

function printReport(report: VerifyReport): void {
  const { ok, size, problems_total, checkpoints_checked, signed_size, unsigned_tail } = report;
  print(
    ok
      ? `The log is whole: ${pluralize(size, 'event')}.`
      : `The log is NOT whole: ${pluralize(problems_total, 'problem')} in ${pluralize(size, 'event')}.`,
  );
  for (const { kind, seq, segment, line, message } of report.problems) {
    const where = segment === null ? '' : ` (${segment}${line === null ? '' : `:${line}`})`;
    print(`  ${kind}${seq === null ? '' : ` at event ${seq}`}${where}: ${message}`);
  }
  printExtent(report);
  printArchived(report);
  print(`Root ${report.root}`);
  print(`${pluralize(checkpoints_checked, 'signed checkpoint')} checked.`);
  print(`${pluralize(signed_size, 'event')} signed, ${unsigned_tail} after the last signature.`);
  if (values.from === undefined)
    print('A cut tail shows only against a checkpoint kept elsewhere: --from FILE.');
  for (const remark of report.remarks) print(remark);
}

function printArchived({ archived, verified_earlier }: VerifyReport): void {
  const { events, segments, hashed, locations } = archived;
  if (segments === 0) return;
  const what = `${pluralize(events, 'event')} in ${pluralize(segments, 'archived segment')}`;
  if (hashed === events) print(`${what} were hashed too.`);
  else if (verified_earlier !== null) print(`${what} are part of it.`);
  else {
    print(`${events - hashed} of ${what} were NOT hashed, only compared by their recorded hashes.`);
    if (values.archive === undefined)
      print(`--archive DIR hashes them; they were archived to ${locations.join(', ')}.`);
  }
}

function printExtent({ hashed, verified_earlier: earlier }: VerifyReport): void {
  if (earlier === null) return;
  const { events, at, full_at } = earlier;
  print(`Verified ${pluralize(hashed, 'event')} since ${at} (${events} verified earlier).`);
  print(`--full hashes everything; that was last done at ${full_at}.`);
}

/**
 * Enters the directory. Root writes into one of another user only as that user, who may have put
 * links there, and who may not be able to reach it by its path.
 */
function enterAsOwner(dir: string): void {
  process.chdir(dir);
  const { uid, gid } = statSync('.');
  if (process.getuid!() !== 0 || uid === 0) return;
  process.setgroups!([]);
  process.setgid!(gid);
  process.setuid!(uid);
}

async function verify(options: VerifyOptions): Promise<VerifyReport> {
  if (values.own !== true) return verifyLog(options);
  // A proof against something kept elsewhere must not rest on a file kept beside the log.
  const isFull = [values.full, values.from, values.key, values.archive].some(
    (value) => value !== undefined,
  );
  const { report, verified } = await verifyOwnLog({ ...options, isFull, nowMs: Date.now() });
  const remark = verified === undefined ? undefined : remember(options.dir, verified);
  return remark === undefined ? report : { ...report, remarks: [...report.remarks, remark] };
}

function remember(dir: string, verified: VerifiedLog): string | undefined {
  try {
    enterAsOwner(dir);
    writeVerified('.', verified);
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return `${VERIFIED_FILE} could not be written (${code ?? message}): the next verification does this work again.`;
  }
}

try {
  const report = await verify({
    dir: positionals[0] ?? '.',
    archiveDir: values.archive,
    from: (values.from ?? []).map((file) => readFileSync(file, 'utf8')),
    ...(values.key === undefined ? {} : { trustedKeys: values.key }),
  });
  if (values.json === true) print(JSON.stringify({ verify: report }));
  else printReport(report);
  process.exitCode = report.ok ? 0 : 1;
} catch (error) {
  const known = error instanceof Fault ? error : undefined;
  const body = known?.toBody() ?? { code: 'internal', message: (error as Error).message, hint: '' };
  process.stderr.write(
    values.json === true
      ? `${JSON.stringify({ error: body })}\n`
      : `agentctl: ${body.message} (${body.code})\n${body.hint}\n`,
  );
  process.exitCode = body.code === 'not_found' ? 5 : 1;
}
