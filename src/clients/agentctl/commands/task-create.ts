// agentctl task create and retry.
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import type { CreateTask, TaskInput, TaskView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { checkId } from '../check-ids.ts';
import type { Args, Session } from '../command.ts';
import { wordOrStdin } from '../input.ts';
import { exampleTime, readTime } from '../read-amounts.ts';
import type { RuntimeClient } from '../runtime.ts';
import { waitForTask } from './task-wait.ts';

type Body = Record<keyof CreateTask, unknown>;

export async function create(session: Session): Promise<number> {
  const { args, runtime } = session;
  const goal = wordOrStdin(args.words[0]!).trim();
  if (goal === '') {
    throw fault('bad_usage', 'the goal is empty', {
      hint: 'Say what to do: agentctl task create "…"',
    });
  }
  const body = { ...bodyOf(args, Date.now()), goal } as CreateTask;
  const inputs = await readInputs(runtime(), args.list('input'));
  if (inputs.length > 0) body.inputs = inputs;
  const { task } = await runtime().ask('agentd', 'createTask', { body }, { once: true });
  return follow(session, task);
}

export async function retry(session: Session): Promise<number> {
  const params = { id: session.args.words[0]! };
  const { task } = await session.runtime().ask('agentd', 'retryTask', { params }, { once: true });
  return follow(session, task);
}

async function follow(session: Session, task: TaskView): Promise<number> {
  const { args, out } = session;
  if (!args.flag('wait') && !args.flag('no-wait')) {
    out.print({ task }, () => [
      `${task.id} for ${task.assigned_to ?? 'nobody yet'}: ${task.status}`,
      `Follow it: agentctl task watch ${task.id}`,
    ]);
    return 0;
  }
  out.note(`${task.id} for ${task.assigned_to ?? 'nobody yet'}`);
  return waitForTask(session, task);
}

/** What the options say, in the words of the API; checked there. */
export function bodyOf(args: Args, nowMs: number): Partial<Body> {
  const limits = {
    max_steps: args.number('max-steps'),
    max_tokens: args.number('max-tokens'),
    max_cost_microusd: args.number('max-cost'),
    max_time_s: args.number('max-time'),
  };
  const deadline = args.text('deadline');
  const place = args.text('workspace');
  const body: Partial<Body> = {
    agent: args.text('agent'),
    parent_task_id: args.text('parent'),
    context_id: args.text('context'),
    priority: args.number('priority'),
    deadline: deadline === undefined ? undefined : readDeadline(deadline, nowMs),
    after: args.list('after').length === 0 ? undefined : args.list('after'),
    workspace: place === undefined ? undefined : placeOf(place),
    limits: Object.values(limits).every((limit) => limit === undefined) ? undefined : limits,
  };
  return JSON.parse(JSON.stringify(body)) as Partial<Body>;
}

function readDeadline(text: string, nowMs: number): string {
  const deadline = readTime(text, nowMs, 'ahead');
  if (Date.parse(deadline) > nowMs) return deadline;
  throw fault('bad_usage', `--deadline ${text} is past`, {
    hint: `Name a time to come: ${exampleTime(nowMs, 'ahead')}, or a time span such as 2h.`,
  });
}

/** Boxes get it as it really is: a link could be turned elsewhere later. */
function placeOf(given: string): string {
  const path = resolve(given);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory() === true) return realpathSync(path);
  const what = stat === undefined ? 'there is no directory' : 'this is not a directory:';
  throw fault('bad_usage', `--workspace: ${what} ${path}`, {
    hint: 'Name one that is there, below what sandboxd.workspace_roots allows.',
  });
}

async function readInputs(runtime: RuntimeClient, given: readonly string[]): Promise<TaskInput[]> {
  const inputs: TaskInput[] = [];
  for (const one of given) inputs.push(await readInput(runtime, one));
  return inputs;
}

/** A file becomes an artifact: it may be large, and its record says where it came from. */
async function readInput(runtime: RuntimeClient, given: string): Promise<TaskInput> {
  if (/^(artifact:\/\/|artifact_)\S*$/.test(given)) {
    checkId(given, 'artifact');
    return { kind: 'artifact_ref', id: given.replace(/^artifact:\/\//, '') };
  }
  if (!given.startsWith('@')) return { kind: 'text', text: given };
  const file = given.slice(1);
  const bytes = readBytes(file);
  const text = bytes.toString('utf8');
  const isText = Buffer.from(text, 'utf8').equals(bytes);
  const content = isText ? { text } : { base64: bytes.toString('base64') };
  const body = { name: basename(file), ...content };
  const { artifact } = await runtime.ask('agentd', 'putArtifact', { body }, { once: true });
  return { kind: 'artifact_ref', id: artifact.id };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `the input ${file} cannot be read (${code})`, {
      hint: 'Name a file that exists and that you may read.',
      cause,
    });
  }
}
