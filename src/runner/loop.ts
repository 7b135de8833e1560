// The agent loop: model, tool calls, model, … until the task ends or the run has to wait. It keeps
// no state: after a crash or a wait it starts again, and repeated calls get recorded responses. So
// a change of a text that the model reads breaks runs that an earlier version started.
import type { MessageView, RunBriefing } from '../wire/agentd.ts';
import type { GenerateResponse, Message, Part } from '../wire/modeld.ts';
import type { CallAnswer, ToolView } from '../wire/toold.ts';
import {
  compact,
  inboxMessage,
  noteToModel,
  openingMessages,
  toolSpecs,
  wireName,
} from './context.ts';
import { type DaemonCall, RefusedError } from './daemon-client.ts';

export type DaemonClients = { agentd: DaemonCall; toold: DaemonCall; modeld: DaemonCall };
export type LoopResult = {
  how: 'finished' | 'parked' | 'gone';
  calls: number;
  result: string | null;
};

type ToolCallPart = Extract<Part, { type: 'tool_call' }>;
type ToolResultPart = Extract<Part, { type: 'tool_result' }>;

type SiblingCall = { call_id: string; tool: string; arguments?: Record<string, unknown> };

const MALFORMED_MAX = 3;
const EMPTY_MAX = 3;
const CALLS_MAX = 128;
const BESIDE_CHARS_MAX = 2_000;
/** The index of the loop's own call, above any that a model can use in one step. */
const OWN_INDEX = 1_023;
const FINISH = 'task_finish';
const WINDOW_SHARE = 0.8;
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** Derives the id from the call's position in the run, so that a repeat is recognized. */
export function deriveCallId(runId: string, kind: 'm' | 't', step: number, index: number): string {
  const digits = (value: number, width: number): string => {
    let text = '';
    for (let rest = value, i = 0; i < width; i++, rest = Math.floor(rest / 32))
      text = ALPHABET[rest % 32] + text;
    return text;
  };
  return `call_${kind === 'm' ? '0' : '1'}${digits(step, 3)}${digits(index, 2)}${runId.slice(-20)}`;
}

export class Loop {
  private readonly daemons: DaemonClients;
  private readonly briefing: RunBriefing;
  private readonly tools: Map<string, ToolView>;
  private messages: Message[];
  private step = 0;
  /** Model and tool calls so far. */
  calls = 0;
  private emptyResponses = 0;
  private tokens = 0;

  constructor(daemons: DaemonClients, briefing: RunBriefing) {
    this.daemons = daemons;
    this.briefing = briefing;
    this.tools = new Map(briefing.tools.map((tool) => [wireName(tool.name), tool]));
    this.messages = openingMessages(briefing);
  }

  async run(): Promise<LoopResult> {
    for (; ; this.step++) {
      const exceeded = this.exceededLimit();
      if (exceeded !== undefined) return this.finish('failed', exceeded, 'limit');
      const inbox = await this.daemons.agentd<{ messages: MessageView[] }>(
        'POST',
        '/v1/run/inbox',
        { step: this.step },
      );
      if (inbox.messages.length > 0) this.messages.push(inboxMessage(inbox.messages));
      const generated = await this.generate();
      if ('ended' in generated) return generated.ended;
      this.messages.push(generated.response.message);
      const ended = await this.act(generated.response);
      if (ended !== undefined) return ended;
    }
  }

  /** Ends the task with a permanent failure. */
  fail({ code, message }: { code: string; message: string }): Promise<LoopResult> {
    return this.finish('failed', message, code);
  }

  private exceededLimit(): string | undefined {
    const { max_steps, max_tokens } = this.briefing.limits;
    if (this.step >= max_steps) return `the limit of ${max_steps} steps is reached`;
    if (max_tokens !== null && this.tokens >= max_tokens)
      return `the limit of ${max_tokens} tokens is reached`;
    return undefined;
  }

  /** Makes one model call. A permanent failure ends the task with its reason. */
  private async generate(): Promise<{ response: GenerateResponse } | { ended: LoopResult }> {
    this.messages = compact(this.messages, this.windowTokens());
    for (let malformed = 0; ; ) {
      try {
        this.calls++;
        const response = await this.daemons.modeld<GenerateResponse>(
          'POST',
          '/v1/models/generate',
          {
            call_id: deriveCallId(this.briefing.run_id, 'm', this.step, 0),
            model: this.briefing.model,
            messages: this.messages,
            tools: toolSpecs([...this.tools.values()]),
            purpose: `step ${this.step + 1}`,
          },
        );
        const { usage } = response;
        this.tokens +=
          usage.input_tokens +
          usage.output_tokens +
          usage.cache_read_tokens +
          usage.cache_write_tokens;
        return { response };
      } catch (error) {
        if (
          !(error instanceof RefusedError) ||
          ['stale_fence', 'canceled', 'replay_differs', 'ended'].includes(error.refusal.code)
        )
          throw error;
        const { code, message, retry } = error.refusal;
        if (code === 'provider_malformed' && ++malformed < MALFORMED_MAX) continue;
        if (retry && code !== 'provider_malformed') throw error;
        return { ended: await this.finish('failed', `${message}. ${error.refusal.hint}`, code) };
      }
    }
  }

  private windowTokens(): number {
    return Math.floor(this.briefing.limits.context_tokens * WINDOW_SHARE);
  }

  /** Makes the tool calls of a response. Returns undefined when the loop continues. */
  private async act(response: GenerateResponse): Promise<LoopResult | undefined> {
    const calls = response.message.parts.filter((part) => part.type === 'tool_call');
    if (calls.length === 0) return this.handleText(response);
    this.emptyResponses = 0;
    const results = await this.callTools(calls);
    if (!Array.isArray(results)) return results;
    const finished = calls.findIndex(
      (part, i) => part.name === FINISH && results[i]!.is_error !== true,
    );
    if (finished >= 0) {
      const result = calls[finished]!.arguments.result;
      return {
        how: 'finished',
        calls: this.calls,
        result: typeof result === 'string' ? result : null,
      };
    }
    this.messages.push({ role: 'user', parts: results, labels: ['tool'] });
    return undefined;
  }

  /** Text without calls is the result. An empty or truncated response is retried a few times. */
  private async handleText(response: GenerateResponse): Promise<LoopResult | undefined> {
    const text = response.message.parts
      .filter((part) => part.type === 'text')
      .map((part) => part.text)
      .join('\n')
      .trim();
    if (text !== '' && response.stop_reason !== 'max_tokens') return this.finish('completed', text);
    if (++this.emptyResponses >= EMPTY_MAX)
      return this.finish(
        'failed',
        'the model returned no text and called no tool',
        'provider_malformed',
      );
    this.messages.push(
      noteToModel(
        text === ''
          ? 'That answer was empty. Call a tool, or call task_finish with the result.'
          : 'That answer was cut off. Go on more briefly, or call task_finish.',
      ),
    );
    return undefined;
  }

  /**
   * Makes all calls of a step concurrently, and task.finish after the others. If the waits of calls
   * have ended before the run is parked, repeats those calls.
   */
  private async callTools(calls: ToolCallPart[]): Promise<ToolResultPart[] | LoopResult> {
    const results: (ToolResultPart | undefined)[] = calls.map((part, index) =>
      index < CALLS_MAX
        ? undefined
        : errorResult(part, `Ask for at most ${CALLS_MAX} calls at once.`),
    );
    const open = (isFinish: boolean) =>
      [...calls.entries()].filter(
        ([index, part]) => results[index] === undefined && (part.name === FINISH) === isFinish,
      );
    for (const isFinish of [false, true]) {
      while (open(isFinish).length > 0) {
        const waiting: string[] = [];
        await Promise.all(
          open(isFinish).map(async ([index, part]) => {
            const outcome = await this.callTool(part, index, this.siblingCalls(calls, index));
            if ('waiting' in outcome) waiting.push(outcome.waiting);
            else results[index] = outcome;
          }),
        );
        if (waiting.length === 0) continue;
        const body = { call_ids: waiting.sort() };
        const { parked } = await this.daemons.agentd<{ parked: boolean }>(
          'POST',
          '/v1/run/park',
          body,
        );
        if (parked) return { how: 'parked', calls: this.calls, result: null };
      }
    }
    return results as ToolResultPart[];
  }

  /** Returns the other calls of this step, as context for a person who decides on this one. */
  private siblingCalls(calls: ToolCallPart[], index: number): SiblingCall[] {
    return calls.slice(0, CALLS_MAX).flatMap((part, at) => {
      const tool = this.tools.get(part.name);
      if (at === index || tool === undefined || part.name === FINISH) return [];
      const isShort = JSON.stringify(part.arguments).length <= BESIDE_CHARS_MAX;
      return {
        call_id: deriveCallId(this.briefing.run_id, 't', this.step, at),
        tool: tool.name,
        ...(isShort ? { arguments: part.arguments } : {}),
      };
    });
  }

  private async callTool(
    part: ToolCallPart,
    index: number,
    beside: SiblingCall[],
  ): Promise<ToolResultPart | { waiting: string }> {
    const tool = this.tools.get(part.name);
    if (tool === undefined)
      return errorResult(
        part,
        `There is no tool ${part.name}. The tools are: ${[...this.tools.keys()].join(', ')}.`,
      );
    if (part.arguments_error !== undefined)
      return errorResult(
        part,
        `The arguments of ${part.name} are not valid JSON (${part.arguments_error}). Call it again with a JSON object.`,
      );
    this.calls++;
    const id = deriveCallId(this.briefing.run_id, 't', this.step, index);
    try {
      const response = await this.daemons.toold<CallAnswer>('POST', '/v1/tools/call', {
        call_id: id,
        tool: tool.name,
        arguments: part.arguments,
        ...(beside.length === 0 ? {} : { beside }),
      });
      if (response.status === 'waiting' || response.status === 'unknown') return { waiting: id };
      if (response.status === 'completed')
        return {
          type: 'tool_result',
          tool_call_id: part.id,
          name: part.name,
          content: JSON.stringify(response.result ?? {}),
        };
      const { code, message, hint } = response.error ?? {
        code: response.status,
        message: `the call is ${response.status}`,
        hint: '',
      };
      return errorResult(part, `${response.status}: ${message} (${code}). ${hint}`);
    } catch (error) {
      // The model can correct bad arguments, and nothing else.
      if (
        error instanceof RefusedError &&
        ['bad_request', 'too_large', 'too_deep'].includes(error.refusal.code)
      )
        return errorResult(part, `${error.refusal.message}. ${error.refusal.hint}`);
      throw error;
    }
  }

  private async finish(
    status: 'completed' | 'failed',
    result: string,
    errorCode?: string,
  ): Promise<LoopResult> {
    this.calls++;
    const response = await this.daemons.toold<CallAnswer>('POST', '/v1/tools/call', {
      call_id: deriveCallId(this.briefing.run_id, 't', this.step, OWN_INDEX),
      tool: 'task.finish',
      arguments: { status, result, ...(errorCode === undefined ? {} : { error_code: errorCode }) },
    });
    if (response.status !== 'completed')
      throw new Error(`task.finish failed: ${response.error?.message ?? response.status}`);
    return { how: 'finished', calls: this.calls, result };
  }
}

function errorResult(part: ToolCallPart, content: string): ToolResultPart {
  return { type: 'tool_result', tool_call_id: part.id, name: part.name, content, is_error: true };
}
