// agentctl workspace list, grant and revoke: the directories that people let agents work in.
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import type { TaskView } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import type { WorkspaceGrant } from '../grants/grant-file.ts';
import { type GrantState, openGrants, readGrantState } from '../grants/grants.ts';
import { revokeUnused } from '../grants/unused.ts';
import type { Out } from '../out.ts';
import { pluralize } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';
import { formatUser } from '../user-name.ts';

const LIVE = ['submitted', 'blocked', 'ready', 'working', 'waiting'] as const;
const STATE_TEXTS: Readonly<Record<GrantState, string>> = {
  ok: 'ok',
  changed: 'replaced by another directory: grant it again, or revoke it',
  gone: 'the directory is gone: revoke it',
};

export async function grant(session: Session): Promise<void> {
  const { args, out } = session;
  const { path, isNew } = await openGrants(session).grant(args.positionals[0]!);
  out.print({ grant: { path, is_new: isNew } }, () => [
    isNew
      ? `Agents may now work in ${replaceControls(path)}, in tasks that name it.`
      : `Agents could work in ${replaceControls(path)} already.`,
    `End that: agentctl workspace revoke ${replaceControls(quoteWord(path))}`,
  ]);
}

export async function revoke(session: Session): Promise<void> {
  const { args, out } = session;
  const [dir] = args.positionals;
  if (args.flag('unused') === (dir !== undefined))
    throw fault('bad_usage', 'revoke takes either a directory or --unused', {
      hint: 'Name the directory: agentctl workspace revoke DIR',
    });
  if (dir === undefined) return printUnused(session);
  const grants = openGrants(session);
  const path = resolve(dir);
  const names = [path, resolveLinks(path)].filter((name) => name !== undefined);
  const tasks = await listLiveTasks(session);
  let found: string | undefined;
  for (const name of names) if (found === undefined && (await grants.revoke(name))) found = name;
  if (found === undefined)
    throw fault('not_found', `${path} is not granted`, {
      hint: 'List what is: agentctl workspace list',
    });
  const open = (tasks ?? []).filter(({ workspace }) => workspace === found);
  out.print({ revoked: { path: found, live_tasks: open.map(({ id }) => id) } }, () => [
    `No new box of an agent gets ${replaceControls(found)}.`,
    ...(open.length === 0
      ? []
      : [
          `Boxes that are open keep it until they close; ${pluralize(open.length, 'task')} named it:`,
          ...open.map(({ id }) => `  agentctl task cancel ${id}`),
        ]),
  ]);
}

async function printUnused(session: Session): Promise<void> {
  const revoked = await revokeUnused(session);
  session.out.print({ revoked }, () =>
    revoked.length === 0
      ? ['Every granted directory is named by a task.']
      : revoked.map((path) => `No task names ${replaceControls(path)}: its grant has ended.`),
  );
}

function resolveLinks(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

export async function list(session: Session): Promise<void> {
  const { out } = session;
  const grants = await openGrants(session).list();
  const tasks = await listLiveTasks(session);
  const rows = grants
    .map((one) => ({
      ...one,
      state: readGrantState(one),
      live_tasks: tasks?.filter(({ workspace }) => workspace === one.path).map(({ id }) => id),
    }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  out.print({ grants: rows }, () => render(rows, out));
}

type Row = WorkspaceGrant & { state: GrantState; live_tasks: string[] | undefined };

function render(rows: readonly Row[], out: Out): string[] {
  if (rows.length === 0)
    return ['No directory is granted: agentctl workspace grant DIR, or task create "…" --here'];
  const cells = rows.map(({ path, owner, state, access, live_tasks }) => [
    replaceControls(path),
    formatUser(owner),
    access === 'read' ? 'read only' : String(live_tasks?.length ?? '?'),
    STATE_TEXTS[state],
  ]);
  const titles = [
    { title: 'DIRECTORY', minWidth: 20 },
    { title: 'OWNER' },
    { title: 'LIVE TASKS', align: 'right' as const },
    { title: 'STATE', minWidth: 10 },
  ];
  return renderTable(titles, cells, out);
}

/** Resolves to undefined for a user who has no key, or while the runtime is down. */
async function listLiveTasks({ runtime }: Session): Promise<TaskView[] | undefined> {
  try {
    const pages = LIVE.map((status) =>
      runtime().call('agentd', 'listTasks', { query: { status, limit: 1_000 } }),
    );
    return (await Promise.all(pages)).flatMap(({ tasks }) => tasks);
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}
