// agentctl memory edit, forget, expire, merge, summarize, approve, reject, snapshot and rollback.
import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultCode, fault } from '../../../wire/errors.ts';
import type { MemorySnapshot, MemoryView } from '../../../wire/memoryd/records.ts';
import type { Session } from '../command.ts';
import { readTextArgument } from '../input.ts';
import { readTime } from '../read-amounts.ts';
import { formatRelative, pluralize } from '../show/amounts.ts';
import { renderTable } from '../show/table.ts';
import { readAbout } from './memory.ts';

type Id = MemoryView['id'];
type SnapshotId = MemorySnapshot['id'];
const NO_TEXT = { hint: 'Give a new text, --vouch, or what is said about it, such as --ref.' };

export async function edit({ args, out, runtime }: Session): Promise<void> {
  const [id, text] = args.positionals as [Id, string | undefined];
  const version = args.number('seen');
  const body = {
    ...readAbout(args),
    ...(text === undefined ? {} : { text: readTextArgument(text) }),
    ...(args.flag('vouch') ? { vouch: true } : {}),
  };
  if (Object.keys(body).length === 0) throw fault('bad_usage', 'nothing to change', NO_TEXT);
  const answer = await runtime().call('memoryd', 'editMemory', {
    params: { id },
    body: { ...body, ...(version === undefined ? {} : { version }) },
  });
  out.print(answer, () => [`${id} has version ${answer.memory.version}.`]);
}

export async function forget({ args, out, runtime }: Session): Promise<void> {
  const ids = [...args.positionals] as Id[];
  let answer = await runtime().call('memoryd', 'forget', { body: { ids } });
  while (args.flag('wait') && answer.memories.some(isBeingErased)) {
    await sleep(POLL_INTERVAL_MS);
    // Nothing is forgotten twice.
    answer = await runtime().call('memoryd', 'forget', { body: { ids } });
  }
  const isDone = !answer.memories.some(isBeingErased);
  out.print(answer, () => [
    `Forgot ${pluralize(ids.length, 'memory', 'memories')}.`,
    isDone
      ? describeErased(answer.memories)
      : `Its copies elsewhere are being removed; see agentctl memory show ${ids[0]}`,
  ]);
}

const POLL_INTERVAL_MS = 500;

const isBeingErased = ({ erasure }: MemoryView): boolean =>
  erasure != null && erasure.status !== 'done';

function describeErased(memories: readonly MemoryView[]): string {
  const counts = memories.flatMap(({ erasure }) => Object.values(erasure?.copies ?? {}));
  const n = counts.reduce((sum, count) => sum + count, 0);
  return n === 0
    ? 'No copy was found elsewhere.'
    : `${pluralize(n, 'copy', 'copies')} elsewhere removed.`;
}

export async function expire({ args, out, runtime }: Session): Promise<void> {
  const ids = [...args.positionals] as Id[];
  const at = args.text('at');
  const body = { ids, ...(at === undefined ? {} : { at: readTime(at, Date.now(), 'ahead') }) };
  const answer = await runtime().call('memoryd', 'expire', { body });
  const what = pluralize(ids.length, 'memory', 'memories');
  out.print(answer, () => [
    body.at === undefined ? `Expired ${what}.` : `${what} will expire at ${body.at}.`,
  ]);
}

export const merge = (session: Session): Promise<void> => combine(session, 'merge');
export const summarize = (session: Session): Promise<void> => combine(session, 'summarize');

async function combine(
  { args, out, runtime }: Session,
  route: 'merge' | 'summarize',
): Promise<void> {
  const [text, ...ids] = args.positionals as [string, ...Id[]];
  const scope = args.text('scope');
  const kind = args.text('class') as MemoryView['class'] | undefined;
  const body = {
    ids,
    text: readTextArgument(text),
    ...(scope === undefined ? {} : { scope }),
    ...(kind === undefined ? {} : { class: kind }),
  };
  const answer = await runtime().call('memoryd', route, { body }, { idempotent: true });
  out.print(answer, () => [answer.memory.id]);
}

export const approve = (session: Session): Promise<void> => decide(session, 'approveMemories');
export const reject = (session: Session): Promise<void> => decide(session, 'rejectMemories');

/** Ends with the error of the first that could not be decided, after what was. */
async function decide(
  { args, out, runtime }: Session,
  route: 'approveMemories' | 'rejectMemories',
): Promise<void> {
  const ids = [...args.positionals] as Id[];
  const answer = await runtime().call('memoryd', route, { body: { ids } });
  const failed = answer.decided.filter(({ error }) => error !== null);
  const isOne = answer.decided.length === 1;
  if (!isOne || failed.length === 0)
    out.print(answer, () =>
      answer.decided.map(({ id, memory, error }) => {
        const what = memory === null ? `not decided: ${error!.message}` : describeDecided(memory);
        return isOne ? what : `${id}  ${what}`;
      }),
    );
  const first = failed[0]?.error;
  if (first == null) return;
  const message = isOne ? first.message : `${failed.length} of ${ids.length} were not decided`;
  throw fault(first.code as FaultCode, message, { hint: first.hint });
}

function describeDecided({ status, scope }: MemoryView): string {
  if (status === 'proposed')
    return 'Your approval is recorded; another person must approve it, too: agentctl approvals';
  if (status === 'rejected') return 'Rejected; nobody recalls it.';
  return `Approved; it is recalled in ${scope} from now on.`;
}

export async function snapshot({ args, out, runtime }: Session): Promise<void> {
  const scope = args.positionals[0];
  if (scope === undefined) {
    const answer = await runtime().call('memoryd', 'listMemorySnapshots', { query: {} });
    return out.print(answer, () => renderSnapshots(answer.snapshots, Date.now()));
  }
  const name = args.text('name');
  const body = { scope, ...(name === undefined ? {} : { name }) };
  const answer = await runtime().call(
    'memoryd',
    'takeMemorySnapshot',
    { body },
    { idempotent: true },
  );
  out.print(answer, () => [
    answer.snapshot.id,
    `To go back to it: agentctl memory rollback ${answer.snapshot.id}`,
  ]);
}

function renderSnapshots(snapshots: readonly MemorySnapshot[], nowMs: number): string[] {
  if (snapshots.length === 0) return ['No snapshots: agentctl memory snapshot SCOPE'];
  const heads = ['ID', 'SCOPE', 'NAME', 'TAKEN', 'BY'].map((title) => ({ title }));
  const rows = snapshots.map(({ id, scope, name, taken_at, by }) => [
    id,
    scope,
    name,
    formatRelative(taken_at, nowMs),
    by,
  ]);
  return renderTable(heads, rows);
}

export async function rollback({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const version = args.number('version');
  if (version === undefined && id.startsWith('memory_'))
    throw fault('bad_usage', `${id} needs a version to go back to`, {
      hint: `See agentctl memory history ${id}, then add --version N.`,
    });
  const client = runtime();
  const answer = await (version === undefined
    ? client.call('memoryd', 'rollBackMemory', { body: { snapshot_id: id as SnapshotId } })
    : client.call('memoryd', 'rollBackMemory', { body: { id: id as Id, version } }));
  out.print(answer, () => [`Took back ${pluralize(answer.changed, 'memory', 'memories')}.`]);
}
