// Test helper: single records as the daemons return them. team.ts has those of a whole task.
import type {
  AgentView,
  MessageView,
  RunView,
  StatusView,
  TaskView,
  WaitView,
} from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { ModelCallView, ModelView } from '../../../wire/modeld.ts';
import type { ToolCallView, ToolView } from '../../../wire/toold.ts';

const startMs = Date.parse('2026-06-29T18:00:00.000Z');
export const at = (s: number): string => new Date(startMs + s * 1_000).toISOString();

/** Makes a valid id that ends in `n`. */
export const id = <T extends string>(kind: string, n: number): T =>
  `${kind}_${String(n).padStart(26, '0')}` as T;

export type Plain<T> = { [K in keyof T]?: unknown };

export function task(n: number, more: Plain<TaskView> = {}): TaskView {
  return {
    id: id('task', n),
    parent_task_id: null,
    root_task_id: id('task', 1),
    context_id: id('ctx', 1),
    goal: 'Find out why the API became slow',
    created_by: 'person:ada',
    assigned_to: 'planner',
    status: 'completed',
    reason: null,
    priority: 0,
    inputs: [],
    limits: {},
    delegation: null,
    after: [],
    deadline: null,
    retry_of: null,
    on_failure: 'stop',
    attempts_max: 1,
    attempt: 1,
    workspace: null,
    workspace_mode: null,
    result: 'A query without an index.',
    result_ref: null,
    error: null,
    labels: ['person'],
    rehearsal: false,
    created_at: at(0),
    updated_at: at(12),
    ended_at: at(12),
    ...more,
  } as TaskView;
}

export const run = (n: number, more: Plain<RunView> = {}): RunView =>
  ({
    id: id('run', n),
    task_id: id('task', n),
    agent: 'planner',
    fence: 1,
    status: 'ended',
    outcome: 'completed',
    activations: 1,
    crashes: 0,
    persona_sha256: null,
    lease_until: null,
    created_at: at(0.1),
    ended_at: at(12),
    ...more,
  }) as RunView;

export const wait = (n: number, more: Plain<WaitView> = {}): WaitView =>
  ({
    id: id('wait', n),
    run_id: id('run', 1),
    task_id: id('task', 1),
    call_id: id('call', 100 + n),
    kind: 'child',
    by: [],
    question: null,
    choices: [],
    child_task_id: null,
    from: null,
    due_at: null,
    expires_at: null,
    status: 'ended',
    outcome: 'completed',
    answer: null,
    answered_by: null,
    opened_at: at(2),
    ended_at: at(8),
    ...more,
  }) as WaitView;

export const modelCall = (n: number, more: Plain<ModelCallView> = {}): ModelCallView =>
  ({
    call_id: id('call', n),
    attempt: 1,
    run_id: id('run', 1),
    fence: 1,
    agent: 'planner',
    task_id: id('task', 1),
    model: 'planner-large',
    provider: 'rehearsal',
    status: 'completed',
    purpose: '',
    request_hash: '0'.repeat(64),
    context: [],
    stop_reason: 'tool_calls',
    usage: {
      input_tokens: 812,
      output_tokens: 143,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
    },
    cost_microusd: 1_200,
    error: null,
    created_at: at(0.5),
    ended_at: at(1.5),
    ...more,
  }) as ModelCallView;

export const toolCall = (n: number, more: Plain<ToolCallView> = {}): ToolCallView =>
  ({
    call_id: id('call', n),
    run_id: id('run', 1),
    fence: 1,
    task_id: id('task', 1),
    agent: 'planner',
    tool: 'task.delegate',
    purpose: '',
    arguments: { agent: 'researcher', goal: 'Read the logs' },
    arguments_hash: '0'.repeat(64),
    status: 'completed',
    result: {},
    error: null,
    wait_id: null,
    attempts: 1,
    created_at: at(2),
    ended_at: at(8),
    ...more,
  }) as ToolCallView;

export const event = (seq: number, more: Plain<AuditEvent> = {}): AuditEvent =>
  ({
    id: `event.${seq}`,
    seq,
    ts: at(seq),
    event: 'tool.call.attempted',
    source: 'toold',
    source_store: 'store',
    source_seq: seq + 1,
    principal: 'agent:planner',
    agent: 'planner',
    task_id: id('task', 1),
    root_task_id: id('task', 1),
    ...more,
  }) as AuditEvent;

export const message = (n: number, more: Plain<MessageView> = {}): MessageView =>
  ({
    id: id('msg', n),
    type: 'TaskProgress',
    context_id: id('ctx', 1),
    task_id: id('task', 1),
    from: 'person:ada',
    to: 'agent:planner',
    in_reply_to: null,
    labels: ['person'],
    parts: [{ kind: 'text', text: 'Look at the database first' }],
    pair_seq: 1,
    sent_at: at(1),
    delivered_at: at(2),
    ...more,
  }) as MessageView;

export const agent = (name: string, more: Plain<AgentView> = {}): AgentView =>
  ({
    name,
    description: `Does what a ${name} does`,
    persona: null,
    role: null,
    purpose: null,
    summary: `${name} - Does what a ${name} does`,
    persona_sha256: 'b'.repeat(64),
    home_id: null,
    linux_user: `agent-${name}`,
    model: `${name}-large`,
    status: 'active',
    replicas: 1,
    capabilities: ['task.delegate'],
    tools: ['task.delegate', 'task.finish'],
    manifest_hash: 'a'.repeat(64),
    manifest_file: null,
    tasks: { ready: 0, working: 1, waiting: 0, ended: 3 },
    budget: { tokens_per_day: null, cost_microusd_per_day: 5_000_000 },
    created_at: at(0),
    updated_at: at(0),
    ...more,
  }) as AgentView;

export const model = (name: string, more: Plain<ModelView> = {}): ModelView =>
  ({
    name,
    kind: 'chat',
    routes: [{ provider: 'rehearsal', model: name }],
    context_tokens: 200_000,
    max_output_tokens: 8_192,
    rehearsal: true,
    is_default: false,
    price: { input: 0, output: 0, is_guess: false },
    available: true,
    ...more,
  }) as ModelView;

export const tool = (name: string, more: Plain<ToolView> = {}): ToolView =>
  ({
    name,
    description: 'Give a colleague a task of its own',
    input_schema: { type: 'object', properties: { agent: { type: 'string' } } },
    output_schema: { type: 'object' },
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    capabilities: ['task.delegate'],
    ...more,
  }) as ToolView;

export const status = (more: Plain<StatusView> = {}): StatusView =>
  ({
    version: '0.1.0',
    mode: 'embedded',
    state_dir: '/somewhere/state',
    started_at: at(0),
    halted: false,
    halt_reason: null,
    agents: { active: 3, paused: 1, stopped: 0 },
    tasks: { completed: 12, working: 1 },
    runs: { queued: 0, live: 1, parked: 0 },
    queue: { for_agents: [], for_machine: 0, runs_live_max: 16 },
    waits_open: 1,
    problems: [],
    ...more,
  }) as StatusView;

export const usage = (cost_microusd: number, more: Record<string, number> = {}) => ({
  rows: [
    {
      agent: 'planner',
      model: 'planner-large',
      provider: 'rehearsal',
      calls: 3,
      usage: { ...noUsage, input_tokens: 1_200, output_tokens: 300, ...more },
      cost_microusd,
      cost_is_guess: false,
    },
  ],
  total: {
    calls: 3,
    usage: { ...noUsage, input_tokens: 1_200, output_tokens: 300, ...more },
    cost_microusd,
  },
});

const noUsage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
};
