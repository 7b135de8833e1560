// The directory that a person names for a task or program, and the grant agents need to work there.
import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import type { CreateTask } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Args, Session } from '../command.ts';
import { replaceControls } from '../show/plain.ts';

/** Where no root of the site covers the workspace, the person who names it lets agents in. */
export async function createGranted<T>(
  session: Session,
  body: Pick<CreateTask, 'workspace' | 'workspace_mode'>,
  request: () => Promise<T>,
): Promise<T> {
  try {
    return await request();
  } catch (error) {
    const isMissing = error instanceof Fault && error.details?.workspace === 'not_granted';
    if (!isMissing || body.workspace === undefined) throw error;
  }
  const { openGrants } = await import('./grants.ts');
  const grants = openGrants(session);
  const { path, isNew } = await grants.grant(body.workspace);
  await warnOfOpenings(session, body);
  try {
    const created = await request();
    session.out.info(
      `Agents may now work in ${path}; end that with: agentctl workspace revoke ${quoteWord(path)}`,
    );
    return created;
  } catch (error) {
    if (isNew) await grants.revoke(path);
    throw error;
  }
}

/** Says what a person may not expect: what is changed in place can be more than the directory. */
async function warnOfOpenings(
  { out }: Session,
  { workspace, workspace_mode }: Pick<CreateTask, 'workspace' | 'workspace_mode'>,
) {
  if (workspace === undefined || workspace_mode !== 'live') return;
  const { describeOpenings, inspectDirectory } = await import('./inspect.ts');
  for (const text of describeOpenings(workspace, inspectDirectory(workspace)))
    out.info(`Warning: ${replaceControls(text)}`);
}

export function readWorkspace(args: Args): string | undefined {
  const named = args.text('workspace');
  if (args.flag('live') && named === undefined && !args.flag('here'))
    throw fault('bad_usage', '--live without a directory', {
      hint: 'Name it: --here, or --workspace DIR.',
    });
  if (!args.flag('here')) return named === undefined ? undefined : resolveWorkspace(named);
  if (named === undefined) return resolveWorkspace('.');
  throw fault('bad_usage', '--here and --workspace name two directories', {
    hint: 'Use one of them.',
  });
}

/** Resolves links, which could be changed later. */
function resolveWorkspace(dir: string): string {
  const path = resolve(dir);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory() === true) return realpathSync(path);
  const what = stat === undefined ? 'not found' : 'is not a directory';
  throw fault('bad_usage', `--workspace: ${path} ${what}`, {
    hint: 'Name an existing directory of your own.',
  });
}
