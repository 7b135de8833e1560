// agentctl doctor: says by trying what works here, what does not, the command that fixes it, and
// what is not protected in this version.
import { FAULTS } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import type { Style } from '../out.ts';
import { plain } from '../show/plain.ts';
import { pad, wrap } from '../show/width.ts';
import { runChecks } from './doctor/checks.ts';
import type { Finding } from './doctor/finding.ts';
import { notProtected } from './doctor/not-protected.ts';

const STYLES: Record<Finding['status'], Style> = {
  ok: 'green',
  no: 'dim',
  warn: 'yellow',
  fail: 'red',
};

const INDENT = ' '.repeat(18);

export async function doctor(session: Session): Promise<number> {
  const { out } = session;
  const { findings: checks, sandboxes } = await runChecks(session);
  const open = notProtected(session.stateDir, sandboxes);
  out.give({ doctor: { checks, not_protected: open } }, () => [
    ...checks.flatMap(({ status, name, message, fix }) => {
      const [first = '', ...more] = wrap(plain(message), out.columns - INDENT.length);
      return [
        `${out.paint(STYLES[status], pad(status, 4))}  ${pad(name, 10)}  ${first}`,
        ...more.map((line) => INDENT + line),
        ...(fix === undefined ? [] : [`${INDENT}fix: ${fix}`]),
      ];
    }),
    '',
    out.paint('bold', 'What is not protected yet'),
    ...open.flatMap((text) =>
      wrap(text, Math.min(out.columns, 100) - 4).map(
        (line, i) => `${i === 0 ? '  - ' : '    '}${line}`,
      ),
    ),
  ]);
  return checks.some(({ status }) => status === 'fail') ? FAULTS.conflict.exit : 0;
}
