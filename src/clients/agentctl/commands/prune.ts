// agentctl prune: starts a pass, follows it, and shows what it pruned and kept.
import type {
  KeptItems,
  PruneKindReport,
  PruneReport,
  RetentionKind,
} from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { Session } from '../command.ts';
import { revokeUnusedIfPossible } from '../grants/unused.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatCount, formatRelative, formatSize, pluralize } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';

const POLL_INTERVAL_MS = 200;
const PROGRESS_INTERVAL_MS = 2_000;

const REASONS: Readonly<Record<KeptItems['reason'], string>> = {
  live: 'not ended',
  recent: 'ended recently',
  used: 'needed by a task that has not ended',
  held: 'held (agentctl task keep)',
  unapplied: 'its changes were neither applied nor discarded',
  policy: 'a rule forbids it',
  needs_approval: 'needs approval (agentctl prune --approve)',
  failed: 'failed; tried again with the next pass',
};

export async function prune(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const client = runtime();
  if (args.flag('status')) return showStatus(client, out);
  const kinds = args.list('kind') as RetentionKind[];
  const olderThanS = args.number('older-than');
  const roots = args.list('task') as TaskId[];
  const body = {
    ...(roots.length === 0 ? {} : { root_task_ids: roots }),
    ...(olderThanS === undefined ? {} : { older_than_s: olderThanS }),
    ...(kinds.length === 0 ? {} : { kinds }),
    ...(args.flag('dry-run') ? { dry_run: true } : {}),
    ...(args.flag('approve') ? { approve: true } : {}),
  };
  const { prune: started } = await client.call('agentd', 'startPrune', { body });
  const report = await followPrune(client, out, started);
  const isDone = report.status === 'completed' && !report.dry_run;
  const revoked = isDone ? await revokeUnusedIfPossible(session) : [];
  out.print({ prune: report, revoked }, () => [
    ...renderReport(report),
    ...revoked.map(
      (path) => `no task names ${replaceControls(path)} any more: its grant has ended`,
    ),
  ]);
  if (report.status === 'canceled')
    throw fault('canceled', 'the pass was interrupted; what it pruned so far is shown above', {
      hint: 'Run agentctl prune again.',
    });
}

async function showStatus(client: RuntimeClient, out: Out): Promise<void> {
  const answer = await client.call('agentd', 'getPrune', { query: {} });
  out.print(answer, () => [
    ...(answer.prune === null ? ['No pass yet since the runtime started.'] : []),
    ...(answer.prune === null ? [] : renderReport(answer.prune)),
    ...answer.backups.map((id) => `Nothing is pruned until ${id} has ended.`),
    ...(answer.next_at === null
      ? []
      : [`The next pass starts ${formatRelative(answer.next_at, Date.now())}.`]),
  ]);
}

export async function followPrune(
  client: RuntimeClient,
  out: Out,
  first: PruneReport,
): Promise<PruneReport> {
  let report = first;
  let shownMs = Date.now();
  while (report.status === 'running') {
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
    const query = { started_at: first.started_at };
    const { prune: now, backups } = await client.call('agentd', 'getPrune', { query });
    // A runtime that was restarted knows nothing of the pass.
    if (now === null) return { ...report, status: 'canceled' };
    report = now;
    if (Date.now() - shownMs < PROGRESS_INTERVAL_MS) continue;
    shownMs = Date.now();
    const waits = backups.length === 0 ? '' : ' (waiting for a backup to end)';
    out.info(`… ${report.kinds.map(summarize).join(', ') || 'starting'}${waits}`);
  }
  return report;
}

const summarize = ({ kind, pruned, bytes }: PruneKindReport): string =>
  `${formatCount(pruned)} ${kind} (${formatSize(bytes)})`;

function renderReport(report: PruneReport): string[] {
  const verb = report.dry_run ? 'would be pruned' : 'pruned';
  const lines = report.kinds.flatMap((kind) => [
    `${kind.kind}: ${formatCount(kind.pruned)} ${verb}, ${formatSize(kind.bytes)}`,
    ...kind.kept.flatMap(renderKept),
  ]);
  if (report.open > 0)
    lines.push(
      `${pluralize(report.open, 'tree')} not yet removed everywhere; the next pass does it`,
    );
  return lines;
}

function renderKept({ reason, count, examples }: KeptItems): string[] {
  const shown = examples.slice(0, 3).map(({ id, detail, rules }) => {
    const rule = rules.length === 0 ? '' : ` [${rules.join(', ')}]`;
    return `    ${id}: ${replaceControls(detail)}${rule}`;
  });
  return [`  kept ${formatCount(count)}: ${REASONS[reason]}`, ...shown];
}
