// Where egressd has texts of others: in the answers that it keeps of requests for tools.
import type { CopyPlace } from '../../platform/copies/erase-records.ts';
import type { Redactor } from '../../platform/copies/redact.ts';
import type { FetchAnswer } from '../../wire/egressd.ts';

function redactAnswer(answer: string, redactor: Redactor): string {
  const { body_base64, ...rest } = JSON.parse(answer) as FetchAnswer;
  const before = JSON.stringify(rest);
  const about = redactor.redactColumn(before);
  const body = Buffer.from(body_base64, 'base64');
  const redacted = redactor.redactBytes(body);
  if (about === before && redacted === body) return answer;
  return JSON.stringify({
    ...(JSON.parse(about) as typeof rest),
    body_base64: redacted.toString('base64'),
    size_bytes: redacted.length,
  });
}

export const COPY_PLACES: readonly CopyPlace[] = [
  {
    table: 'fetches',
    key: ['call_id'],
    columns: [],
    reads: ['answer'],
    async redact(_sql, { answer }, redactor) {
      if (typeof answer !== 'string') return undefined;
      const redacted = redactAnswer(answer, redactor);
      return redacted === answer ? undefined : { answer: redacted };
    },
  },
];
