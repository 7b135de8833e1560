// A fake upstream for property tests that bills like a provider: everything sent may be billed up
// to its bound, with or without a response. The ledger must never show less than its bill.
import { fault } from '../../../wire/errors.ts';
import type { Usage } from '../../../wire/modeld.ts';
import type { Amount } from '../rules/budget.ts';
import type { ModelRoute } from '../rules/models.ts';
import type {
  ModelInput,
  ModelResult,
  ProviderResult,
  RoutePlan,
  Upstream,
  UpstreamOptions,
} from '../service/ports.ts';

export type Behaviour =
  | 'answers'
  | 'answers without usage'
  | 'refuses for free'
  | 'breaks after billing'
  | 'breaks, then answers'
  | 'streams'
  | 'cuts its stream'
  | 'hangs';

/** The script of one call. `share` is the part of its bound that the provider bills. */
export type PlayedPart = { name: string; behaviour: Behaviour; turns: number; share: number };

/** The provider's bill by call name. */
export type Bill = Map<string, Amount & { sends: number }>;

const TOKEN_COST = { input: 2, output: 5 };
const costOf = (input: number, output: number): number =>
  input * TOKEN_COST.input + output * TOKEN_COST.output;

export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}

function usageOf(inputTokens: number, outputTokens: number): Usage {
  return {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
  };
}

function ended(usage: Usage | undefined): ModelResult {
  return {
    response: {
      id: '',
      model: 'played',
      message: { role: 'assistant', parts: [{ type: 'text', text: 'ok' }] },
      stopReason: 'end',
      usage: usage ?? usageOf(0, 0),
      usageReported: usage !== undefined,
      cacheWriteLongTokens: 0,
    },
  };
}

export class FakeUpstream implements Upstream {
  readonly bill: Bill = new Map();
  /** False after a crash, when nothing is sent. */
  isAlive = true;
  #partOf: (ask: ModelInput) => PlayedPart;
  onStep: () => void = () => {};

  constructor(partOf: (ask: ModelInput) => PlayedPart) {
    this.#partOf = partOf;
  }

  connect(): void {}

  disconnect(): void {}
  close(): void {}
  estimateInputTokens(): number {
    return 1;
  }
  state() {
    return { inFlight: 0, available: true };
  }
  getPrice() {
    return { input: 1, output: 1, is_guess: false };
  }

  plan(ask: ModelInput, _model: unknown, routes: readonly ModelRoute[]): RoutePlan {
    const text = JSON.stringify(ask);
    const wanted = (ask.form === 'neutral' && ask.request.limits?.max_output_tokens) || 50;
    return {
      bound: {
        inputTokens: text.length,
        outputTokensWanted: wanted,
        computeCost: (outputTokens) => costOf(text.length, outputTokens),
      },
      inputTokensGuess: 1,
      computeCost: (_route, { usage }) => costOf(usage.input_tokens, usage.output_tokens),
      run: (run) => this.#run(this.#partOf(ask), { run, route: routes[0]!, input: text.length }),
    };
  }

  /** Bills one request, never above its limits. */
  #send(part: PlayedPart, run: UpstreamOptions, input: number): Usage {
    run.tries.count++;
    run.tries.chain.push('played');
    const usage = usageOf(
      Math.floor(input * part.share),
      Math.floor(run.outputTokensMax * part.share),
    );
    if (!this.isAlive) return usage;
    const line = this.bill.get(part.name) ?? { tokens: 0, costMicrousd: 0, sends: 0 };
    line.sends++;
    line.tokens += usage.input_tokens + usage.output_tokens;
    line.costMicrousd += costOf(usage.input_tokens, usage.output_tokens);
    this.bill.set(part.name, line);
    this.onStep();
    return usage;
  }

  async #run(
    part: PlayedPart,
    call: { run: UpstreamOptions; route: ModelRoute; input: number },
  ): Promise<ProviderResult> {
    const { run, route, input } = call;
    const perform = (result: ModelResult | Promise<ModelResult>): ProviderResult => ({
      route,
      ended: Promise.resolve(result),
      output: { type: 'answer' },
    });
    await run.beforeTry();
    if (part.behaviour === 'refuses for free') {
      run.tries.count++;
      throw fault('provider_refused', 'no', { details: { upstream_status: 400 } });
    }
    let usage = this.#send(part, run, input);
    await turns(part.turns);
    switch (part.behaviour) {
      case 'answers without usage':
        return perform(ended(undefined));
      case 'breaks, then answers':
        run.tries.lost++;
        await run.beforeTry();
        usage = this.#send(part, run, input);
        await turns(part.turns);
        return perform(ended(usage));
      case 'breaks after billing':
        run.tries.lost++;
        throw fault('provider_malformed', 'half an answer');
      case 'hangs':
        await new Promise<void>((resolve) => {
          if (run.signal.aborted) resolve();
          run.signal.addEventListener('abort', () => resolve());
        });
        run.tries.lost++;
        throw fault('canceled', 'the caller disconnected');
      case 'streams':
        return perform(turns(part.turns).then(() => ended(usage)));
      case 'cuts its stream':
        return perform(
          turns(part.turns).then(() => ({
            ...ended(usage),
            fault: fault('provider_malformed', 'truncated'),
          })),
        );
      default:
        return perform(ended(usage));
    }
  }
}
