// agentctl task create and retry.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { CreateTask, TaskInput, TaskView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { checkId } from '../check-ids.ts';
import type { Args, Session } from '../command.ts';
import { createGranted, readWorkspace } from '../grants/granted-workspace.ts';
import { readTextArgument } from '../input.ts';
import { makeExampleTime, readTime } from '../read-amounts.ts';
import type { RuntimeClient } from '../runtime.ts';
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

/** Puts a task on the board: without an owner, the best match gets it. */
export async function add(session: Session): Promise<number> {
  const { args, runtime } = session;
  const goal = readTextArgument(args.positionals[0]!).trim();
  if (goal === '') {
    throw fault('bad_usage', 'the goal is empty', {
      hint: 'State the goal: agentctl task add "…"',
    });
  }
  const owner = args.text('owner');
  const needs = args.list('needs');
  const body = JSON.parse(
    JSON.stringify({
      ...buildBody(args, Date.now()),
      goal,
      agent: owner,
      needs: owner !== undefined && needs.length === 0 ? undefined : needs,
      on_failure: args.text('on-failure'),
      attempts_max: args.number('attempts'),
    }),
  ) as CreateTask;
  const inputs = await readInputs(runtime(), args.list('input'));
  if (inputs.length > 0) body.inputs = inputs;
  const { task } = await runtime().call('agentd', 'createTask', { body }, { idempotent: true });
  return follow(session, task);
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
      task.assigned_to === null
        ? 'No agent matches clearly. Say which one gets it: agentctl questions'
        : `Follow it: agentctl task watch ${task.id}`,
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
  if (/^memory_[0-9a-z]{26}$/.test(input)) return { kind: 'memory_ref', id: input };
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
