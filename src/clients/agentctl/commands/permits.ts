// Permits that people gave with an approval: agentctl permit list, revoke.
import type { PermitView } from '../../../wire/approvald.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { formatRelative, pluralize } from '../show/amounts.ts';
import { escapeHidden } from '../show/exact.ts';
import { renderTable } from '../show/table.ts';

export async function list({ args, out, runtime }: Session): Promise<void> {
  const all = args.flag('all');
  const query = { limit: 1000, ...(all ? {} : { active: 'true' as const }) };
  const answer = await runtime().call('approvald', 'listPermits', { query });
  out.print(answer, () => {
    if (answer.permits.length === 0)
      return [all ? 'No permit was ever given.' : 'No permit is in force.'];
    return renderPermits(answer.permits, out);
  });
}

function renderPermits(permits: readonly PermitView[], { columns, paint }: Out): string[] {
  const nowMs = Date.now();
  const rows = permits.map((one) => [
    one.id,
    one.agent,
    one.action ?? `all of ${one.class}`,
    one.scope,
    escapeHidden(one.root_task_id ?? one.repo ?? one.class),
    `${one.risk}, ${one.reversibility}`,
    one.granted_by.join(', '),
    String(one.uses),
    formatEnd(one, nowMs),
  ]);
  const titles = ['ID', 'AGENT', 'TOOL', 'FOR', 'WHERE', 'UP TO', 'BY', 'USES', 'ENDS'];
  const heads = titles.map((title) => (title === 'WHERE' ? { title, minWidth: 12 } : { title }));
  return renderTable(heads, rows, { columns, paint });
}

function formatEnd(
  { active, revoked_by, revoked_at, expires_at }: PermitView,
  nowMs: number,
): string {
  if (revoked_at !== null) return `revoked by ${revoked_by} ${formatRelative(revoked_at, nowMs)}`;
  return active ? formatRelative(expires_at, nowMs) : `ended ${formatRelative(expires_at, nowMs)}`;
}

export async function revoke({ args, out, runtime }: Session): Promise<void> {
  const params = { id: args.positionals[0]! };
  const answer = await runtime().call('approvald', 'revokePermit', { params });
  const { permit } = answer;
  out.print(answer, () => [
    `${permit.id} is revoked (it was used ${pluralize(permit.uses, 'time')}); ${permit.agent} must ask again.`,
  ]);
}
