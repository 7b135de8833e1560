// Loads a preset: checks all of it, creates its agents, then its tasks and messages in one
// transaction. If that fails, the agents it has created are removed again.
import { stringify } from 'yaml';
import type { HandlerContext } from '../../../platform/dispatch.ts';
import type { NewId } from '../../../platform/ids.ts';
import { hashJson, sha256Hex } from '../../../platform/json.ts';
import { expandWord } from '../../../policy/capabilities.ts';
import type { agentdRoutes, CreateTask, PresetView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AgentName, ContextId, FileProblem, TaskId } from '../../../wire/primitives.ts';
import type { Agents } from '../manifests/agents.ts';
import type { ReadManifest } from '../manifests/declared-tools.ts';
import { type PersonaLibrary, toLayerRef } from '../personas/library.ts';
import type { AgentdService } from '../service.ts';
import type { AgentdStore } from '../store/store.ts';
import { findValueProblem, parsePreset } from './preset-file.ts';
import type { Preset } from './preset-schema.ts';
import { sortTasks } from './task-order.ts';
import { fillIn } from './variables.ts';

export type PresetDeps = {
  store: AgentdStore;
  service: Pick<AgentdService, 'prepareTask'>;
  agents: Pick<Agents, 'putAgent' | 'removeAgent'>;
  readManifest: ReadManifest;
  personas: () => PersonaLibrary;
  newId: NewId;
};
type LoadContext = HandlerContext<(typeof agentdRoutes)['loadPreset']>;
type PlannedAgent = PresetView['agents'][number] & { yaml: string | undefined };

export function makePresetHandlers(deps: PresetDeps) {
  return {
    async loadPreset({ body, caller }: LoadContext): Promise<{ preset: PresetView }> {
      const { file, dry_run: isDry = false } = body;
      const parsed = parsePreset(body.text, file);
      if (!parsed.ok) throw presetFault(parsed.problems);
      const variables = readVariables(parsed.preset, body.variables ?? {}, { file, isDry });
      const preset = fillPreset(parsed.preset, variables);
      const agents = await planAgents(deps, preset, {
        file,
        text: body.text,
        skip: body.skip_existing === true,
      });
      const view = describePreset(preset, { variables, agents });
      if (isDry) return { preset: view };
      const key = body.again === true ? deps.newId<string>('load') : hashJson(preset);
      return { preset: await load(deps, { preset, view, agents, by: caller.principal, key }) };
    },
  };
}

function presetFault(problems: readonly FileProblem[]) {
  const lines = problems.map(({ file, line, message }) => `${file}:${line ?? 1}: ${message}`);
  return fault('bad_config', lines.join('\n'), {
    hint: problems[0]!.hint,
    details: { problems: [...problems] },
  });
}

type FilledVariables = PresetView['variables'];

function readVariables(
  { variables = {} }: Preset,
  given: Record<string, string>,
  { file, isDry }: { file: string; isDry: boolean },
): FilledVariables {
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(variables, name));
  if (unknown !== undefined)
    throw fault('bad_request', `${file} has no variable ${unknown}`, {
      hint: `It has: ${Object.keys(variables).join(', ') || 'none'}.`,
    });
  const filled = Object.entries(variables).map(([name, variable]) => {
    const value = given[name] ?? variable.default ?? null;
    const wrong = value === null ? undefined : findValueProblem(name, value, variable);
    if (wrong !== undefined) throw fault('bad_request', wrong.message, { hint: wrong.hint });
    const from = Object.hasOwn(given, name) ? 'given' : value === null ? 'missing' : 'default';
    const { description = '', choice = [] } = variable;
    return { name, description, choice, value, from: from as 'given' | 'default' | 'missing' };
  });
  const missing = filled.filter(({ value }) => value === null).map(({ name }) => name);
  if (missing.length > 0 && !isDry)
    throw fault('bad_request', `${file} requires ${missing.join(', ')}`, {
      hint: `Set each: ${missing.map((name) => `--set ${name}=…`).join(' ')}`,
    });
  return filled;
}

function fillPreset(preset: Preset, variables: FilledVariables): Preset {
  const values = new Map(
    variables.flatMap(({ name, value }) => (value === null ? [] : [[name, value] as const])),
  );
  const fill = (text: string) => fillIn(text, values);
  const fillIf = <K extends string>(member: K, text: string | undefined) =>
    (text === undefined ? {} : { [member]: fill(text) }) as Partial<Record<K, string>>;
  return {
    ...preset,
    agents: preset.agents.map((agent) => ({
      ...agent,
      ...fillIf('description', agent.description),
      ...fillIf('instructions', agent.instructions),
    })),
    tasks: sortTasks(preset.tasks).map((task) => ({ ...task, goal: fill(task.goal) })),
    mail: (preset.mail ?? []).map((mail) => ({
      ...mail,
      subject: fill(mail.subject),
      body: fill(mail.body),
    })),
  };
}

/** Throws if an agent cannot be what the preset says. */
async function planAgents(
  deps: PresetDeps,
  preset: Preset,
  { file, text, skip }: { file: string; text: string; skip: boolean },
): Promise<PlannedAgent[]> {
  const existing = new Map((await deps.store.agents()).map((agent) => [agent.row.name, agent]));
  const planned: PlannedAgent[] = [];
  for (const agent of preset.agents) {
    const found = existing.get(agent.name);
    const isNamedOnly =
      agent.persona === undefined && agent.instructions === undefined && agent.allow === undefined;
    if (found === undefined && isNamedOnly)
      throw fault(
        'not_found',
        `${file}: agent ${agent.name} does not exist, and is not described`,
        {
          hint: 'Give it a persona, instructions or allow, or create it first.',
        },
      );
    const yaml = isNamedOnly ? undefined : writeManifest(deps, agent, preset.metadata.name);
    const isSame = yaml === undefined || found?.row.manifest_hash === sha256Hex(yaml);
    if (found !== undefined && !isSame && !skip)
      throw fault('conflict', `${file}: agent ${agent.name} exists and differs`, {
        hint: 'Keep yours with --skip-existing, or remove it: agentctl agent remove.',
      });
    if (found !== undefined) {
      const { description } = found.view;
      planned.push({ name: agent.name, description, action: 'keep', yaml: undefined });
      continue;
    }
    const read = await deps.readManifest(yaml!, file);
    if (!read.ok)
      throw presetFault(
        read.problems.map((problem) => ({
          ...problem,
          line: findAgentLine(text, agent.name),
          message: `agent ${agent.name}: ${problem.message}`,
        })),
      );
    const { description } = read.agent;
    planned.push({ name: agent.name, description, action: 'create', yaml });
  }
  return planned;
}

/** The manifest is made of the preset, so its own lines say nothing to the author. */
function findAgentLine(text: string, name: string): number | null {
  const at = text
    .split('\n')
    .findIndex((line) => new RegExp(`\\bname["']?:\\s*["']?${name}\\b`).test(line));
  return at < 0 ? null : at + 1;
}

function writeManifest(
  { personas }: PresetDeps,
  { name, description, persona, instructions, allow, replicas }: Preset['agents'][number],
  preset: string,
): string {
  const refs = persona === undefined ? [] : [persona].flat();
  const expected = refs.flatMap((ref) =>
    (personas().files.get(toLayerRef(ref)) ?? []).flatMap(({ front }) => front.tools ?? []),
  );
  const tools = [...new Set(allow ?? expected)];
  const deny = listLeftOut(expected, tools);
  return stringify({
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: {
      name,
      ...(description === undefined ? {} : { description }),
      labels: { preset },
    },
    spec: {
      ...(refs.length === 0 ? {} : { personas: refs }),
      ...(instructions === undefined ? {} : { persona: instructions }),
      ...(replicas === undefined ? {} : { replicas }),
      ...(tools.length + deny.length === 0
        ? {}
        : { tools: { allow: tools, ...(deny.length === 0 ? {} : { deny }) } }),
    },
  });
}

/** Returns what a persona expects and the preset leaves out: the manifest says that it is meant. */
function listLeftOut(expected: readonly string[], allowed: readonly string[]): string[] {
  const tools = new Set(allowed.flatMap(expandWord));
  return [...new Set(expected)].filter((word) => !expandWord(word).some((tool) => tools.has(tool)));
}

const describePreset = (
  { metadata, tasks, mail = [] }: Preset,
  { variables, agents }: { variables: FilledVariables; agents: readonly PlannedAgent[] },
): PresetView => ({
  ...metadata,
  variables,
  agents: agents.map(({ yaml: _, ...agent }) => agent),
  tasks: tasks.map(({ id, goal, agent, needs, after }) => ({
    id,
    goal,
    agent: agent ?? null,
    needs: needs ?? [],
    after: after ?? [],
    task_id: null,
    status: null,
  })),
  mail: mail.map(({ to, subject }) => ({ to, subject })),
  context_id: null,
});

type Load = {
  preset: Preset;
  view: PresetView;
  agents: readonly PlannedAgent[];
  by: string;
  key: string;
};

async function load(deps: PresetDeps, { preset, view, agents, by, key }: Load) {
  const { store, service } = deps;
  const once = { scope: `${by} loadPreset`, key, requestHash: key };
  const created: string[] = [];
  try {
    for (const { name, yaml } of agents) {
      if (yaml === undefined) continue;
      await deps.agents.putAgent(name, yaml, { createOnly: true, by });
      created.push(name);
    }
    const contextId = deps.newId<ContextId>('ctx');
    const ids = new Map<string, string>();
    const tasks = [];
    for (const { id, goal, agent, needs, after = [], ...task } of preset.tasks) {
      const input: CreateTask = {
        goal,
        context_id: contextId,
        ...(agent === undefined ? { needs: needs ?? [] } : { agent, needs }),
        after: after.map((other) => ids.get(other) as TaskId),
        priority: task.priority,
        on_failure: task.on_failure,
        attempts_max: task.attempts_max,
        ...(task.max_cost_usd === undefined
          ? {}
          : { limits: { max_cost_microusd: Math.round(task.max_cost_usd * 1_000_000) } }),
      };
      const made = await service.prepareTask(input, { principal: by });
      ids.set(id, made.id);
      tasks.push(made);
    }
    const messages = (preset.mail ?? []).map(({ to, subject, body }) => ({
      type: 'TaskProgress',
      contextId,
      taskId: null,
      from: by,
      to: `agent:${to}`,
      inReplyTo: null,
      labels: ['person' as const],
      parts: [{ kind: 'text', text: `${subject}\n\n${body}` }],
      text: `${subject}\n\n${body}`,
      delivered: false,
    }));
    const rows = await store.createTasks(tasks, messages, once);
    return {
      ...view,
      tasks: view.tasks.map((task, i) => ({
        ...task,
        agent: rows[i]!.assigned_to as AgentName | null,
        task_id: rows[i]!.id as TaskId,
        status: rows[i]!.status as PresetView['tasks'][number]['status'],
      })),
      context_id: rows[0]!.context_id as ContextId,
    };
  } catch (error) {
    for (const name of created.reverse()) await deps.agents.removeAgent(name, by);
    throw error;
  }
}
