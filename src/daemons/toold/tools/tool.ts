// What a tool is: a named operation with its schemas and what the broker must know of it. Each
// group of tools has its own file; the registry lists them.
import * as z from 'zod';
import type { Client } from '../../../platform/link.ts';
import { wordsGranting } from '../../../policy/capabilities.ts';
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
  taskId: TaskId;
  rootTaskId: TaskId;
  /** The box of the run, made when it is first needed. Only for tools that say `box`. */
  box(): Promise<Box>;
  /**
   * Aborted when the run is dismissed. A tool that stops for it throws `canceled`, having done
   * nothing.
   */
  signal: AbortSignal;
  /** The approval that let it begin, where one was needed. */
  approvalId?: ApprovalId;
  /** What the person saw it rest on, where its preview says. */
  basis?: Basis;
};

/** On what an approved call rests, by name; shown to the person who approves it. One line each. */
export type Basis = Readonly<Record<string, string>>;
/**
 * What would change. With a basis, `perform` does it on that or not at all; without one, it is
 * looked at again right before.
 */
export type Preview = string | { text: string; basis: Basis };

/** What a declared tool did that its declaration or its sandbox does not allow. */
export type Violation = 'output' | 'limit' | 'network';

/**
 * What came of it: a result, a failure that is certain, a wait that agentd holds, or something that
 * only a person can find out.
 */
export type Effect = (
  | { result: Record<string, unknown> }
  | { error: CallError }
  | { wait: WaitView }
  | { unknown: true }
) & {
  /** Of a declared tool: what it did that was not declared. */
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
   * Does it. A fault means that nothing was done: one that says retry leaves the call to be asked
   * again, any other is the call's failure; with `openOutcome` it is not even known whether
   * anything was done, until the call is asked again. Another error of a tool that is not
   * idempotent leaves the outcome unknown.
   */
  perform(input: z.output<I>, context: ToolContext): Promise<Effect>;
  /**
   * Where somebody else remembers what the call did: what became of an attempt whose end nobody
   * here saw. Undefined: nothing was done, so it may be done again.
   */
  recall?(context: ToolContext): Promise<Effect | undefined>;
  /** A person said that it did not happen: whoever remembers it lets it be done once more. */
  forget?(context: ToolContext): Promise<void>;
  /** What a wait that has ended means for the call. */
  readWaitOutcome?(wait: WaitView): ToolOutcome;
  /** Where a permit for the tool would say too much: the tool with what must be the same. */
  describeAction?(input: z.output<I>): string;
  /** Where it depends on the input how far it can be undone; never worse than `reversibility`. */
  assessReversibility?(input: z.output<I>): ToolView['reversibility'];
  /** Whom it lets do something, and what of it, where it does. */
  delegatesTo?(
    input: z.output<I>,
  ): { agent: string; delegation: Delegation | undefined } | undefined;
  /** Paths are absolute, as the box shows them. */
  touches?(input: z.output<I>): Touch[];
  /** It touches nothing besides, so that policy was asked about all it does. Not for commands. */
  touchesAll?: true;
  /** Whether it needs the run's box, and for what: what a marked run writes there stays marked. */
  box?: 'read' | 'write';
  /** Labels that its output brings into the run, such as `outside`. */
  outputLabels?: readonly Label[];
  /** What would change, for whoever must approve it. */
  preview?(input: z.output<I>, context: ToolContext): Promise<Preview>;
  /** The preview shows files: from the last look until it is done, nobody else works there. */
  previewsFiles?: true;
  /** `required`: a person is asked before every call, whatever else policy says. */
  approval?: 'required' | 'policy';
  /** How it could be undone, in words for whoever must approve it. */
  rollback?: string;
  /** Made by an operator in YAML: it is suspended when it does not keep to that. */
  isDeclared?: true;
  timeoutMs?: number;
  callsPerRunMax?: number;
};

export type Tool = ToolDefinition<z.ZodType> & { view: ToolView };

/** Keeps the types of one tool together, and makes the view that people and models read. */
export function tool<I extends z.ZodType>(spec: ToolDefinition<I>): Tool {
  const { input, output, perform: _perform, readWaitOutcome: _settle, ...rest } = spec;
  const view = {
    ...rest,
    capabilities: wordsGranting(spec.name),
    input_schema: toJsonSchema(input, 'input'),
    output_schema: toJsonSchema(output, 'output'),
  };
  // The broker hands `perform` only what `input` has parsed, so the narrower type holds.
  return { ...(spec as unknown as ToolDefinition<z.ZodType>), view };
}

function toJsonSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const whole = z.toJSONSchema(schema, {
    io,
    override({ jsonSchema }) {
      // The bounds of a safe integer tell a model nothing.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  const { $schema: _, ...rest } = whole as Record<string, unknown>;
  return rest;
}

/** Nothing was done: it would not have been what the person saw. */
export const changedFault = (what: string): Fault =>
  fault('conflict', `${what}: it has changed since a person approved this`, {
    hint: 'Nothing was done. Look at what is there now, and ask again.',
    details: { reason: 'changed' },
  });

/** The same fault, of something that may have been done; who asks again will learn it. */
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
 * Requests to agentd for a call are not given up when the run is dismissed: agentd does each once
 * per run and call, and half an answer would leave the journal without its outcome.
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

/** What most waits mean when they did not end with an answer. */
export function readUnanswered(wait: WaitView, what: string): ToolOutcome | undefined {
  if (wait.outcome === 'canceled') {
    const hint = 'Go on without it, or end the task.';
    return {
      status: 'canceled',
      error: { code: 'canceled', message: `${what} was canceled`, hint, retry: false },
    };
  }
  if (wait.outcome === 'expired') {
    const hint = 'Go on without an answer, or ask again with more time.';
    return {
      status: 'failed',
      error: { code: 'expired', message: `${what} was not answered in time`, hint, retry: false },
    };
  }
  return undefined;
}

/** The words of an answer, whichever member holds them. */
export function readAnswerText(wait: WaitView): string | undefined {
  const { answer, text } = wait.answer ?? {};
  if (typeof answer === 'string') return answer;
  return typeof text === 'string' ? text : undefined;
}
