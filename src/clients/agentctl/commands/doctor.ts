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

export async function doctor(session: Session): Promise<number> {
  const { out } = session;
  const { findings: checks, sandboxes } = await runChecks(session);
  const open = notProtected(session.stateDir, sandboxes);
  out.give({ doctor: { checks, not_protected: open } }, () => [
    ...checks.flatMap(({ status, name, message, fix }) => [
      `${out.paint(STYLES[status], pad(status, 4))}  ${pad(name, 10)}  ${plain(message)}`,
      ...(fix === undefined ? [] : [`${' '.repeat(18)}fix: ${fix}`]),
    ]),
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
