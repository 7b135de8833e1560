// agentctl task create and retry.
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import type { CreateTask, TaskInput, TaskView } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import { checkId } from '../check-ids.ts';
import type { Args, Session } from '../command.ts';
import { readTextArgument } from '../input.ts';
import { makeExampleTime, readTime } from '../read-amounts.ts';
import type { RuntimeClient } from '../runtime.ts';
import { replaceControls } from '../show/plain.ts';
import { waitForTask } from './task-wait.ts';

type Body = Record<keyof CreateTask, unknown>;

export async function create(session: Session): Promise<number> {
  const { args, runtime } = session;
  const goal = readTextArgument(args.positionals[0]!).trim();
  if (goal === '') {
    throw fault('bad_usage', 'the goal is empty', {
      hint: 'State the goal: agentctl task create "…"',
    });
  }
  const body = { ...buildBody(args, Date.now()), goal } as CreateTask;
  const inputs = await readInputs(runtime(), args.list('input'));
  if (inputs.length > 0) body.inputs = inputs;
  const { task } = await createGranted(session, body, () =>
    runtime().call('agentd', 'createTask', { body }, { idempotent: true }),
  );
  return follow(session, task);
}

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
  const { openGrants } = await import('../grants/grants.ts');
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

export async function retry(session: Session): Promise<number> {
  const params = { id: session.args.positionals[0]! };
  const { task } = await session
    .runtime()
    .call('agentd', 'retryTask', { params }, { idempotent: true });
  return follow(session, task);
}

async function follow(session: Session, task: TaskView): Promise<number> {
  const { args, out } = session;
  if (!args.flag('wait') && !args.flag('no-wait')) {
    out.print({ task }, () => [
      `${task.id} for ${task.assigned_to ?? 'no agent yet'}: ${task.status}`,
      `Follow it: agentctl task watch ${task.id}`,
    ]);
    return 0;
  }
  out.info(`${task.id} for ${task.assigned_to ?? 'no agent yet'}`);
  return waitForTask(session, task);
}

/** A directory of that name is ./own. */
const OWN = 'own';

/** Maps options to API fields; the API checks them. */
export function buildBody(args: Args, nowMs: number): Partial<Body> {
  const limits = {
    max_steps: args.number('max-steps'),
    max_tokens: args.number('max-tokens'),
    max_cost_microusd: args.number('max-cost'),
    max_time_s: args.number('max-time'),
  };
  const deadline = args.text('deadline');
  const isOwn = args.text('parent') !== undefined && args.text('workspace') === OWN;
  const workspace = isOwn ? OWN : readWorkspace(args);
  const body: Partial<Body> = {
    agent: args.text('agent'),
    parent_task_id: args.text('parent'),
    context_id: args.text('context'),
    priority: args.number('priority'),
    deadline: deadline === undefined ? undefined : readDeadline(deadline, nowMs),
    after: args.list('after').length === 0 ? undefined : args.list('after'),
    workspace,
    workspace_mode: args.flag('live') ? 'live' : undefined,
    limits: Object.values(limits).every((limit) => limit === undefined) ? undefined : limits,
  };
  return JSON.parse(JSON.stringify(body)) as Partial<Body>;
}

function readDeadline(text: string, nowMs: number): string {
  const deadline = readTime(text, nowMs, 'ahead');
  if (Date.parse(deadline) > nowMs) return deadline;
  throw fault('bad_usage', `--deadline ${text} is past`, {
    hint: `Use a future time: ${makeExampleTime(nowMs, 'ahead')}, or a duration such as 2h.`,
  });
}

/** Says what a person may not expect: what is changed in place can be more than the directory. */
async function warnOfOpenings(
  { out }: Session,
  { workspace, workspace_mode }: Pick<CreateTask, 'workspace' | 'workspace_mode'>,
) {
  if (workspace === undefined || workspace_mode !== 'live') return;
  const { describeOpenings, inspectDirectory } = await import('../grants/inspect.ts');
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

async function readInputs(runtime: RuntimeClient, texts: readonly string[]): Promise<TaskInput[]> {
  const inputs: TaskInput[] = [];
  for (const text of texts) inputs.push(await readInput(runtime, text));
  return inputs;
}

/** A file becomes an artifact: it may be large, and artifacts record their origin. */
async function readInput(runtime: RuntimeClient, input: string): Promise<TaskInput> {
  if (/^(artifact:\/\/|artifact_)\S*$/.test(input)) {
    checkId(input, 'artifact');
    return { kind: 'artifact_ref', id: input.replace(/^artifact:\/\//, '') };
  }
  if (!input.startsWith('@')) return { kind: 'text', text: input };
  const file = input.slice(1);
  const bytes = readBytes(file);
  const text = bytes.toString('utf8');
  const isText = Buffer.from(text, 'utf8').equals(bytes);
  const content = isText ? { text } : { base64: bytes.toString('base64') };
  const body = { name: basename(file), ...content };
  const { artifact } = await runtime.call('agentd', 'putArtifact', { body }, { idempotent: true });
  return { kind: 'artifact_ref', id: artifact.id };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `the input ${file} cannot be read (${code})`, {
      hint: 'Name an existing file that you may read.',
      cause,
    });
  }
}
