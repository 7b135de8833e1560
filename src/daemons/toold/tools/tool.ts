// Defines a tool: a named operation with its schemas and what the broker must know about it. Each
// group of tools has its own file; the registry lists them.
import * as z from 'zod';
import type { Client } from '../../../platform/link.ts';
import { findGrantingCapabilities } from '../../../policy/capabilities.ts';
import type { Touch } from '../../../policy/request.ts';
import type { agentdRoutes, Delegation, WaitView } from '../../../wire/agentd.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { ApprovalId, CallId, Label, RunId, TaskId } from '../../../wire/primitives.ts';
import type { ToolView } from '../../../wire/toold.ts';
import type { CallError } from '../rules.ts';
import type { Box } from './box.ts';

export type { Touch };
export type AgentdClient = Client<typeof agentdRoutes>;

export type ToolContext = {
  runId: RunId;
  fence: number;
  callId: CallId;
  agent: string;
  /** The agent's main persona, if it has one. */
  persona?: string | undefined;
  taskId: TaskId;
  rootTaskId: TaskId;
  /** The run's box, opened when first needed. Only for tools that declare `box`. */
  box(): Promise<Box>;
  /**
   * Aborted when the run is dismissed. A tool that stops for it throws `canceled`, having done
   * nothing.
   */
  signal: AbortSignal;
  /** The approval that allowed it, where one was needed. */
  approvalId?: ApprovalId;
  /** The basis that the person approved, where the preview has one. */
  basis?: Basis;
};

/** The state an approved call depends on, by name; shown to the approver. One line each. */
export type Basis = Readonly<Record<string, string>>;
/**
 * Shows the change. With a basis, `perform` acts on that state or not at all; without one, the
 * preview is rendered again right before.
 */
export type Preview = string | { text: string; basis: Basis };

/** A way in which a declared tool can violate its declaration. */
export type Violation = 'output' | 'limit' | 'network';

/** A result, a certain failure, a wait at agentd, or an outcome that only a person can find out. */
export type Effect = (
  | { result: Record<string, unknown> }
  | { error: CallError }
  | { wait: WaitView }
  | { unknown: true }
) & {
  /** Only of declared tools. */
  violations?: readonly Violation[];
};
export type ToolOutcome =
  | { status: 'completed'; result: Record<string, unknown> }
  | { status: 'failed' | 'canceled'; error: CallError };

type Derived = 'input_schema' | 'output_schema' | 'capabilities';
export type ToolDefinition<I extends z.ZodType> = Omit<ToolView, Derived> & {
  input: I;
  output: z.ZodType<Record<string, unknown>>;
  /**
   * Performs the effect. A thrown fault means that nothing was done: with `retry` the call may be
   * attempted again, without it the call has failed. With `openOutcomeFault` the next attempt finds
   * out what was done. Any other error leaves the outcome of a non-idempotent tool unknown.
   */
  perform(input: z.output<I>, context: ToolContext): Promise<Effect>;
  /**
   * Looks up the effect of an interrupted attempt where another daemon records it. Resolves to
   * undefined when nothing was done, so that it may be repeated.
   */
  recall?(context: ToolContext): Promise<Effect | undefined>;
  /** Clears that record after a person confirmed that the effect did not happen. */
  forget?(context: ToolContext): Promise<void>;
  /** Reads the outcome of the call from its ended wait. */
  readWaitOutcome?(wait: WaitView): ToolOutcome | { unknown: true };
  /**
   * A narrower action than the tool name, where a permit for the whole tool would allow too much.
   */
  describeAction?(input: z.output<I>): string;
  /** By input, where it varies; never worse than `reversibility`. */
  assessReversibility?(input: z.output<I>): ToolView['reversibility'];
  /** The agent and delegation that it hands rights to. */
  delegatesTo?(
    input: z.output<I>,
  ): { agent: string; delegation: Delegation | undefined } | undefined;
  /** Paths are absolute, as the box shows them. */
  touches?(input: z.output<I>): Touch[];
  /** It touches nothing else, so policy has decided on all of it. Not for commands. */
  touchesAll?: true;
  /** How it uses the run's box; a marked run's writes mark the workspace. */
  box?: 'read' | 'write';
  /** Labels that its output carries into the run, such as `outside`. */
  outputLabels?: readonly Label[];
  /** Shows an approver what would change. */
  preview?(input: z.output<I>, context: ToolContext): Promise<Preview>;
  /** The preview shows files, which stay locked from the last preview until the effect is done. */
  previewsFiles?: true;
  /** `required`: every call needs approval, even where policy allows it. */
  approval?: 'required' | 'policy';
  /** Describes to an approver how to undo it. */
  rollback?: string;
  /** Declared in YAML by an operator; suspended when it violates that declaration. */
  isDeclared?: true;
  timeoutMs?: number;
  callsPerRunMax?: number;
};

export type Tool = ToolDefinition<z.ZodType> & { view: ToolView };

/** Ties the types of one tool together, and adds the view for people and models. */
export function tool<I extends z.ZodType>(spec: ToolDefinition<I>): Tool {
  const { input, output, perform: _perform, readWaitOutcome: _settle, ...rest } = spec;
  const view = {
    ...rest,
    capabilities: findGrantingCapabilities(spec.name),
    input_schema: toJsonSchema(input, 'input'),
    output_schema: toJsonSchema(output, 'output'),
  };
  // The broker passes `perform` only values that `input` parsed, so the cast is safe.
  return { ...(spec as unknown as ToolDefinition<z.ZodType>), view };
}

function toJsonSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const whole = z.toJSONSchema(schema, {
    io,
    override({ jsonSchema }) {
      // The bounds of safe integers are noise to a model.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  const { $schema: _, ...rest } = whole as Record<string, unknown>;
  return rest;
}

/** For an effect that was not done because the approved state has changed. */
export const changedFault = (what: string): Fault =>
  fault('conflict', `${what} has changed since a person approved this`, {
    hint: 'Nothing was done. Check the current state, and call again.',
    details: { reason: 'changed' },
  });

/** Marks a fault as: the effect may have happened, and the next attempt can find out. */
export const openOutcomeFault = ({
  code,
  message,
  hint,
  retryAfterMs,
  details,
  cause,
}: Fault): Fault =>
  fault(code, message, { hint, retryAfterMs, details: { ...details, outcome: 'open' }, cause });
export const isOpenOutcome = ({ details }: Fault): boolean => details?.outcome === 'open';

export function toCallError(error: Fault): CallError {
  return { code: error.code, message: error.message, hint: error.hint, retry: error.retry };
}

/**
 * Requests to agentd are not aborted when the run is dismissed: agentd performs each once per call,
 * and an aborted response would leave the journal without the outcome.
 */
export const peerOptions = { deadlineMs: 20_000 } as const;

export const forRun = ({ runId, fence, callId }: ToolContext) => ({
  run_id: runId,
  fence,
  call_id: callId,
});

export const fetchWait = async (
  agentd: Pick<AgentdClient, 'getWait'>,
  id: WaitView['id'],
): Promise<WaitView> => (await agentd.getWait({ params: { id } }, peerOptions)).wait;

/** The outcome of a wait that was canceled or expired; undefined for any other. */
export function readUnanswered(wait: WaitView, what: string): ToolOutcome | undefined {
  if (wait.outcome === 'canceled') {
    const hint = 'Continue without it, or end the task.';
    return {
      status: 'canceled',
      error: { code: 'canceled', message: `${what} was canceled`, hint, retry: false },
    };
  }
  if (wait.outcome === 'expired') {
    const hint = 'Continue without an answer, or ask again with more time.';
    return {
      status: 'failed',
      error: { code: 'expired', message: `${what} was not answered in time`, hint, retry: false },
    };
  }
  return undefined;
}

export function readAnswerText(wait: WaitView): string | undefined {
  const { answer, text } = wait.answer ?? {};
  if (typeof answer === 'string') return answer;
  return typeof text === 'string' ? text : undefined;
}
