// Records a published policy that a daemon could not load as an audit event, because the previous
// one stays in force.
import type { NewId } from '../platform/ids.ts';
import type { Log } from '../platform/log.ts';
import type { Outbox } from '../platform/outbox.ts';
import type { Database } from '../platform/sql/database.ts';
import type { DaemonName } from '../wire/daemons.ts';
import type { PolicySourceOptions } from './source.ts';

const PROBLEM_CHARS_MAX = 1_024;

export function auditRefusals(own: {
  daemon: DaemonName;
  db: Pick<Database, 'write'>;
  outbox: Pick<Outbox, 'add' | 'wake'>;
  newId: NewId;
  log: Log;
}): NonNullable<PolicySourceOptions['onRefused']> {
  const { daemon, db, outbox, log } = own;
  return ({ problem, versionInForce }) => {
    const draft = {
      id: own.newId<string>('rt'),
      event: 'policy.refused',
      principal: `service:${daemon}`,
      data: {
        version_in_force: versionInForce ?? 0,
        problems: 1,
        first: problem.slice(0, PROBLEM_CHARS_MAX),
      },
    } as const;
    db.write((sql) => outbox.add(sql, draft)).then(
      () => outbox.wake(),
      (error: unknown) => log.error('recording a refused policy failed', { problem, error }),
    );
  };
}
