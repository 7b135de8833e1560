// The built-in loop: model, calls, model, … until the task is finished or the run has to wait. It
// keeps no state: after a crash or a wait it starts again, and what it asked before is answered
// from the record.
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
const SILENT_MAX = 3;
const CALLS_MAX = 128;
const BESIDE_CHARS_MAX = 2_000;
/** Of the loop's own call, beyond all that a model may ask for in one step. */
const OWN_INDEX = 1_023;
const FINISH = 'task_finish';
const WINDOW_SHARE = 0.8;
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** The id of a call follows from its place in the run, so that asking again is recognised. */
export function callId(runId: string, kind: 'm' | 't', step: number, index: number): string {
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
  /** Asked of models and tools so far. */
  calls = 0;
  private silent = 0;
  private tokens = 0;

  constructor(daemons: DaemonClients, briefing: RunBriefing) {
    this.daemons = daemons;
    this.briefing = briefing;
    this.tools = new Map(briefing.tools.map((tool) => [wireName(tool.name), tool]));
    this.messages = openingMessages(briefing);
  }

  async run(): Promise<LoopResult> {
    for (; ; this.step++) {
      const over = this.overLimit();
      if (over !== undefined) return this.finish('failed', over, 'limit');
      const inbox = await this.daemons.agentd<{ messages: MessageView[] }>(
        'POST',
        '/v1/run/inbox',
        { step: this.step },
      );
      if (inbox.messages.length > 0) this.messages.push(inboxMessage(inbox.messages));
      const answer = await this.think();
      if ('ended' in answer) return answer.ended;
      this.messages.push(answer.response.message);
      const ended = await this.act(answer.response);
      if (ended !== undefined) return ended;
    }
  }

  /** Ends the task with a reason that trying again cannot mend. */
  giveUp({ code, message }: { code: string; message: string }): Promise<LoopResult> {
    return this.finish('failed', message, code);
  }

  private overLimit(): string | undefined {
    const { max_steps, max_tokens } = this.briefing.limits;
    if (this.step >= max_steps) return `the limit of ${max_steps} steps is reached`;
    if (max_tokens !== null && this.tokens >= max_tokens)
      return `the limit of ${max_tokens} tokens is reached`;
    return undefined;
  }

  /** One model call. Refusals that trying again cannot mend end the task with their reason. */
  private async think(): Promise<{ response: GenerateResponse } | { ended: LoopResult }> {
    this.messages = compact(this.messages, this.windowTokens());
    for (let malformed = 0; ; ) {
      try {
        this.calls++;
        const response = await this.daemons.modeld<GenerateResponse>(
          'POST',
          '/v1/models/generate',
          {
            call_id: callId(this.briefing.run_id, 'm', this.step, 0),
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

  /** Performs what the model asked for; undefined when the loop goes on. */
  private async act(response: GenerateResponse): Promise<LoopResult | undefined> {
    const asked = response.message.parts.filter((part) => part.type === 'tool_call');
    if (asked.length === 0) return this.noCalls(response);
    this.silent = 0;
    const results = await this.perform(asked);
    if (!Array.isArray(results)) return results;
    const finished = asked.findIndex(
      (part, i) => part.name === FINISH && results[i]!.is_error !== true,
    );
    if (finished >= 0) {
      const result = asked[finished]!.arguments.result;
      return {
        how: 'finished',
        calls: this.calls,
        result: typeof result === 'string' ? result : null,
      };
    }
    this.messages.push({ role: 'user', parts: results, labels: ['tool'] });
    return undefined;
  }

  /**
   * An answer without calls is the result; an empty or cut one gets another chance, a few times.
   */
  private async noCalls(response: GenerateResponse): Promise<LoopResult | undefined> {
    const text = response.message.parts
      .filter((part) => part.type === 'text')
      .map((part) => part.text)
      .join('\n')
      .trim();
    if (text !== '' && response.stop_reason !== 'max_tokens') return this.finish('completed', text);
    if (++this.silent >= SILENT_MAX)
      return this.finish(
        'failed',
        'the model gave no answer and called no tool',
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
   * All calls of a step at once, but finishing only when the others are done. What has to wait is
   * asked again when the wait is over.
   */
  private async perform(asked: ToolCallPart[]): Promise<ToolResultPart[] | LoopResult> {
    const results: (ToolResultPart | undefined)[] = asked.map((part, index) =>
      index < CALLS_MAX ? undefined : failed(part, `Ask for at most ${CALLS_MAX} calls at once.`),
    );
    const open = (isFinish: boolean) =>
      [...asked.entries()].filter(
        ([index, part]) => results[index] === undefined && (part.name === FINISH) === isFinish,
      );
    for (const isFinish of [false, true]) {
      while (open(isFinish).length > 0) {
        const waiting: string[] = [];
        await Promise.all(
          open(isFinish).map(async ([index, part]) => {
            const outcome = await this.callTool(part, index, this.beside(asked, index));
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

  /** The other calls of this step, for a person who may be asked about this one. */
  private beside(asked: ToolCallPart[], index: number): SiblingCall[] {
    return asked.slice(0, CALLS_MAX).flatMap((part, at) => {
      const tool = this.tools.get(part.name);
      if (at === index || tool === undefined || part.name === FINISH) return [];
      const isShort = JSON.stringify(part.arguments).length <= BESIDE_CHARS_MAX;
      return {
        call_id: callId(this.briefing.run_id, 't', this.step, at),
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
      return failed(
        part,
        `There is no tool ${part.name}. The tools are: ${[...this.tools.keys()].join(', ')}.`,
      );
    if (part.arguments_error !== undefined)
      return failed(
        part,
        `The arguments of ${part.name} are not valid JSON (${part.arguments_error}). Call it again with a JSON object.`,
      );
    this.calls++;
    const id = callId(this.briefing.run_id, 't', this.step, index);
    try {
      const answer = await this.daemons.toold<CallAnswer>('POST', '/v1/tools/call', {
        call_id: id,
        tool: tool.name,
        arguments: part.arguments,
        ...(beside.length === 0 ? {} : { beside }),
      });
      if (answer.status === 'waiting' || answer.status === 'unknown') return { waiting: id };
      if (answer.status === 'completed')
        return {
          type: 'tool_result',
          tool_call_id: part.id,
          name: part.name,
          content: JSON.stringify(answer.result ?? {}),
        };
      const { code, message, hint } = answer.error ?? {
        code: answer.status,
        message: `the call is ${answer.status}`,
        hint: '',
      };
      return failed(part, `${answer.status}: ${message} (${code}). ${hint}`);
    } catch (error) {
      // Bad arguments are the model's to mend; everything else is not.
      if (
        error instanceof RefusedError &&
        ['bad_request', 'too_large', 'too_deep'].includes(error.refusal.code)
      )
        return failed(part, `${error.refusal.message}. ${error.refusal.hint}`);
      throw error;
    }
  }

  private async finish(
    status: 'completed' | 'failed',
    result: string,
    errorCode?: string,
  ): Promise<LoopResult> {
    this.calls++;
    const answer = await this.daemons.toold<CallAnswer>('POST', '/v1/tools/call', {
      call_id: callId(this.briefing.run_id, 't', this.step, OWN_INDEX),
      tool: 'task.finish',
      arguments: { status, result, ...(errorCode === undefined ? {} : { error_code: errorCode }) },
    });
    if (answer.status !== 'completed')
      throw new Error(`the task could not be finished: ${answer.error?.message ?? answer.status}`);
    return { how: 'finished', calls: this.calls, result };
  }
}

function failed(part: ToolCallPart, content: string): ToolResultPart {
  return { type: 'tool_result', tool_call_id: part.id, name: part.name, content, is_error: true };
}
