// agentctl digest: what waits for the person, what went wrong, what was done, and what it cost.
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { readTime } from '../read-amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { truncate } from '../show/width.ts';

export async function digest({ args, out, runtime }: Session): Promise<void> {
  const given = args.text('since');
  const since = given === undefined ? {} : { since: readTime(given, Date.now(), 'ago') };
  const limit = args.number('limit');
  const query = { ...since, ...(limit === undefined ? {} : { limit }) };
  const answer = await runtime().call('agentd', 'getDigest', { query });
  if (!args.flag('mail')) {
    out.print(answer, () => layOutDigest(answer.digest.text, out));
    return;
  }
  const { mail } = await runtime().call(
    'agentd',
    'mailDigest',
    { body: since },
    { idempotent: true },
  );
  out.print({ ...answer, mail }, () => [
    ...layOutDigest(answer.digest.text, out),
    '',
    `Mailed to ${mail.to}: agentctl mail`,
  ]);
}

/** Headings begin their line, in capitals. */
export function layOutDigest(text: string, { columns, paint }: Pick<Out, 'columns' | 'paint'>) {
  return replaceControls(text)
    .split('\n')
    .map((line) => {
      const shown = truncate(line, columns);
      return /^[A-Z ]+:/.test(shown) ? paint('bold', shown) : shown;
    });
}
