// Verifies an audit directory, or a copy of one, from the command line: no daemon, no key, reads only.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Fault } from '../../wire/errors.ts';
import { verifyLog } from './log/verify.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    from: { type: 'string', multiple: true },
    key: { type: 'string', multiple: true },
    json: { type: 'boolean' },
  },
});

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

try {
  const report = await verifyLog({
    dir: positionals[0] ?? '.',
    from: (values.from ?? []).map((file) => readFileSync(file, 'utf8')),
    ...(values.key === undefined ? {} : { trustedKeys: values.key }),
  });
  if (values.json === true) print(JSON.stringify({ verify: report }));
  else {
    print(
      report.ok
        ? `The log is whole: ${report.size} events.`
        : `The log is NOT whole: ${report.problems_total} problem${report.problems_total === 1 ? '' : 's'} in ${report.size} events.`,
    );
    for (const problem of report.problems)
      print(
        `  ${problem.kind}${problem.seq === null ? '' : ` at event ${problem.seq}`}${problem.segment === null ? '' : ` (${problem.segment}${problem.line === null ? '' : `:${problem.line}`})`}: ${problem.message}`,
      );
    print(`Root ${report.root}`);
    print(
      `${report.checkpoints_checked} signed checkpoint${report.checkpoints_checked === 1 ? '' : 's'} checked; ${report.signed_size} events are signed, ${report.unsigned_tail} came after the last signature.`,
    );
    if (values.from === undefined)
      print('A cut tail shows only against a checkpoint kept elsewhere: --from FILE.');
    for (const remark of report.remarks) print(remark);
  }
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
