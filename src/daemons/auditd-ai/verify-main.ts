// Verifies an audit directory or a copy of one from the command line. Needs no daemon and no key.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Fault } from '../../wire/errors.ts';
import { type VerifyReport, verifyLog } from './log/verify.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    from: { type: 'string', multiple: true },
    key: { type: 'string', multiple: true },
    json: { type: 'boolean' },
  },
});

// The reader of a pipe may close it early.
process.stdout.on('error', () => process.exit());

function print(line: string): void {
  process.stdout.write(`${line}\n`);
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
  print(`Root ${report.root}`);
  print(`${pluralize(checkpoints_checked, 'signed checkpoint')} checked.`);
  print(`${pluralize(signed_size, 'event')} signed, ${unsigned_tail} after the last signature.`);
  if (values.from === undefined)
    print('A cut tail shows only against a checkpoint kept elsewhere: --from FILE.');
  for (const remark of report.remarks) print(remark);
}

try {
  const report = await verifyLog({
    dir: positionals[0] ?? '.',
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
