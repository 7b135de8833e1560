// agentctl permit list and revoke.
import { escapeHidden } from '../../../platform/text/hidden.ts';
import type { PermitView } from '../../../wire/approvald.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { formatRelative, pluralize } from '../show/amounts.ts';
import { renderTable } from '../show/table.ts';

export async function list({ args, out, runtime }: Session): Promise<void> {
  const all = args.flag('all');
  const query = { limit: 1000, ...(all ? {} : { active: 'true' as const }) };
  const answer = await runtime().call('approvald', 'listPermits', { query });
  out.print(answer, () => {
    if (answer.permits.length === 0) return [all ? 'No permits.' : 'No active permits.'];
    return renderPermits(answer.permits, out);
  });
}

function renderPermits(permits: readonly PermitView[], { columns, paint }: Out): string[] {
  const nowMs = Date.now();
  const rows = permits.map((permit) => [
    permit.id,
    permit.agent,
    permit.action ?? `all of ${permit.class}`,
    permit.scope,
    escapeHidden(permit.root_task_id ?? permit.repo ?? permit.class),
    `${permit.risk}, ${permit.reversibility}`,
    permit.granted_by.join(', '),
    String(permit.uses),
    formatEnd(permit, nowMs),
  ]);
  const titles = ['ID', 'AGENT', 'TOOL', 'SCOPE', 'WHERE', 'UP TO', 'BY', 'USES', 'EXPIRES'];
  const heads = titles.map((title) => (title === 'WHERE' ? { title, minWidth: 12 } : { title }));
  return renderTable(heads, rows, { columns, paint });
}

function formatEnd(
  { active, revoked_by, revoked_at, expires_at }: PermitView,
  nowMs: number,
): string {
  if (revoked_at !== null) return `revoked by ${revoked_by} ${formatRelative(revoked_at, nowMs)}`;
  return active
    ? formatRelative(expires_at, nowMs)
    : `expired ${formatRelative(expires_at, nowMs)}`;
}

export async function revoke({ args, out, runtime }: Session): Promise<void> {
  const params = { id: args.positionals[0]! };
  const answer = await runtime().call('approvald', 'revokePermit', { params });
  const { permit } = answer;
  out.print(answer, () => [
    `${permit.id} is revoked (used ${pluralize(permit.uses, 'time')}); ${permit.agent} needs approval again.`,
  ]);
}
