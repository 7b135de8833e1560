// The providers there are now, from the configuration and from operators, and the names they answer
// to. A provider that is added is live at once and durable before the operator has the answer.
import { join } from 'node:path';
import { checkValue } from '../../../platform/check.ts';
import { nearest } from '../../../platform/did-you-mean.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { ModelView, ProviderPrice, ProviderView } from '../../../wire/modeld.ts';
import type { Label } from '../../../wire/primitives.ts';
import { LABELS, type ModeldConfig, ProviderConfig } from '../config.ts';
import { fromMask, toMask } from '../rules/labels.ts';
import {
  hasRealModel,
  isOffered,
  type Kind,
  kindOfName,
  listModels,
  type ModelEntry,
  type ModelRoute,
  type Offer,
  REHEARSAL,
  type Resolved,
  resolveModel,
} from '../rules/models.ts';
import { type Keys, readPrivateFile } from '../store/keys.ts';
import { readProviders, type StoredProvider } from '../store/settings.ts';
import type { OpenRoute } from './order.ts';
import type { ProviderSettings, Upstream } from './ports.ts';

type ProviderEntry = {
  settings: ProviderSettings;
  labelsAllowed: number;
  models: readonly string[];
  isConfigured: boolean;
  hasKey: boolean;
};

export type ProvidersParts = {
  config: ModeldConfig;
  db: Database;
  keys: Keys;
  upstream: Upstream;
};

const REHEARSAL_KEY = 'rehearsal';
const REHEARSAL_CONCURRENCY = 256;

export class Providers {
  readonly #parts: ProvidersParts;
  readonly #live = new Map<string, ProviderEntry>();
  readonly #models: ReadonlyMap<string, ModelEntry>;
  #offer: Offer | undefined;

  private constructor(parts: ProvidersParts) {
    this.#parts = parts;
    this.#models = new Map(
      Object.entries(parts.config.models).map(([name, model]) => [
        name,
        {
          routes: model.routes,
          kind: model.kind,
          contextTokens: model.context_tokens,
          maxOutputTokens: model.max_output_tokens,
          isExact: true,
        },
      ]),
    );
  }

  static async open(parts: ProvidersParts): Promise<Providers> {
    const { config, db, keys } = parts;
    const own = new Providers(parts);
    for (const [name, provider] of Object.entries(config.providers))
      own.#put(fromConfig(name, provider, keyOf(name, provider, config.credentials_dir)));
    for (const stored of await db.read(readProviders))
      if (!own.#live.has(stored.name)) own.#put(fromStore(stored, keys.read(stored.name)));
    if (config.rehearsal !== undefined) own.#put(rehearsal(config.rehearsal.address));
    own.#assertRoutes();
    return own;
  }

  resolve(name: string, kind: Kind): { model: Resolved; routes: OpenRoute[] } {
    const model = resolveModel(this.#offers(), name, kind);
    return { model, routes: this.open(model.routes) };
  }

  /** The same objects as the model has, with what each provider may see. */
  open(routes: readonly ModelRoute[]): OpenRoute[] {
    return routes.map((route) => ({
      ...route,
      labelsAllowed: this.#live.get(route.provider)?.labelsAllowed ?? 0,
    }));
  }

  /** A name that somebody offers; for all others an agent is answered by the default. */
  offers(name: string): boolean {
    return isOffered(this.#offers(), name);
  }

  /**
   * Whoever calls by hand means the model they name, and not whichever there is. Where the
   * configuration names a default it answers; so does the rehearsal, which says what it is.
   */
  assertMeant(name: string): void {
    const offer = this.#offers();
    if (offer.defaultModel === undefined && hasRealModel(offer) && !isOffered(offer, name))
      throw this.unknown(name);
  }

  unknown(name: string): Fault {
    const known = [...this.models().map((model) => model.name), ...this.#live.keys()];
    const near = nearest(name, known);
    const guess = near === undefined ? '' : `; did you mean ${near}?`;
    return fault('not_found', `there is no model ${name}${guess}`, {
      hint: 'See agentctl model list; add one with agentctl model add.',
    });
  }

  kindOf(name: string): Kind {
    return this.#models.get(name)?.kind ?? kindOfName(name);
  }

  has(name: string): boolean {
    return this.#live.has(name);
  }

  modelsOf(name: string): readonly string[] {
    return this.#live.get(name)?.models ?? [];
  }

  priceOf(name: string): ProviderPrice | undefined {
    return this.#live.get(name)?.settings.price;
  }

  /** What will be when it is added; nothing has changed yet. */
  check(name: string, asked: { dialect: 'anthropic' | 'openai'; base_url: string }): void {
    if (name === REHEARSAL)
      throw fault('bad_request', `${REHEARSAL} is the name of the played model`);
    if (this.#live.get(name)?.isConfigured === true) {
      throw fault('conflict', `the provider ${name} is set in the configuration`, {
        hint: 'Change it in agentd.yaml, or add yours under another name.',
      });
    }
    const checked = checkValue(ProviderConfig, asked);
    if (!checked.success) throw fault('bad_request', `base_url: ${checked.issues[0]!.message}`);
    if (URL.canParse(asked.base_url) && new URL(asked.base_url).password !== '')
      throw fault('bad_request', 'base_url must not hold a password; give the key as the key');
  }

  add(stored: StoredProvider): ProviderView {
    this.#put(fromStore(stored, this.#parts.keys.read(stored.name)));
    return this.view(stored.name);
  }

  view(name: string): ProviderView {
    const live = this.#live.get(name)!;
    const { inFlight, available, reason } = this.#parts.upstream.state(name);
    const isUseless = live.models.length === 0 && !this.#isRouted(name);
    const why = isUseless
      ? `no model is named for it: agentctl model add ${name} --model MODEL`
      : reason;
    return {
      name,
      dialect: live.settings.dialect,
      base_url: live.settings.baseUrl,
      has_key: live.hasKey,
      labels_allowed: fromMask(live.labelsAllowed) as Label[],
      in_flight: inFlight,
      available: available && !isUseless,
      ...(why === undefined ? {} : { reason: why }),
    };
  }

  /** The real ones: what is played is said by the models. */
  views(): ProviderView[] {
    return [...this.#live.keys()]
      .filter((name) => name !== REHEARSAL)
      .map((name) => this.view(name));
  }

  models(): ModelView[] {
    return listModels(this.#offers()).map((model) => {
      const states = model.routes.map((route) => this.#parts.upstream.state(route.provider));
      const available = states.some((state) => state.available);
      const reason = available ? undefined : states[0]?.reason;
      return {
        name: model.name,
        kind: model.kind,
        routes: model.routes.map(({ provider, model: name }) => ({ provider, model: name })),
        context_tokens: model.contextTokens,
        max_output_tokens: model.maxOutputTokens,
        rehearsal: model.rehearsal,
        is_default: model.isDefault,
        price: this.#parts.upstream.priceOf(model.routes[0]!.provider, model.routes[0]!.model),
        available,
        ...(reason === undefined ? {} : { reason }),
      };
    });
  }

  #offers(): Offer {
    this.#offer ??= {
      models: this.#models,
      providers: [...this.#live.values()]
        .filter(({ settings }) => settings.name !== REHEARSAL)
        .map(({ settings, models }) => ({ name: settings.name, models })),
      defaultModel: this.#parts.config.default_model,
      hasRehearsal: this.#live.has(REHEARSAL),
    };
    return this.#offer;
  }

  #isRouted(name: string): boolean {
    if (name === REHEARSAL) return true;
    return [...this.#models.values()].some(({ routes }) =>
      routes.some(({ provider }) => provider === name),
    );
  }

  #put(live: ProviderEntry): void {
    this.#live.set(live.settings.name, live);
    this.#offer = undefined;
    this.#parts.upstream.connect(live.settings);
  }

  #assertRoutes(): void {
    for (const [name, { routes }] of this.#models) {
      const missing = routes.find(({ provider }) => !this.#live.has(provider));
      if (missing === undefined) continue;
      throw fault(
        'bad_config',
        `modeld.models.${name} names the provider ${missing.provider}, which there is not`,
        { hint: `There are: ${[...this.#live.keys()].join(', ') || 'none'}.` },
      );
    }
  }
}

/** Read once: the key lives in a closure and is handed to nothing but the call that needs it. */
function keyOf(
  name: string,
  provider: ProviderConfig,
  credentialsDir: string | undefined,
): string | undefined {
  if (provider.key_file !== undefined) return readPrivateFile(provider.key_file, 'owner');
  if (provider.key_credential === undefined) return undefined;
  if (credentialsDir === undefined) {
    throw fault('bad_config', `modeld.providers.${name} names a credential, and none were passed`, {
      hint: 'Start it with LoadCredential=, or use key_file.',
    });
  }
  return readPrivateFile(join(credentialsDir, provider.key_credential), 'any');
}

function fromConfig(
  name: string,
  provider: ProviderConfig,
  key: string | undefined,
): ProviderEntry {
  const { timeouts } = provider;
  return {
    settings: {
      name,
      dialect: provider.dialect,
      baseUrl: provider.base_url,
      readKey: () => key,
      concurrency: provider.concurrency,
      requestsPerMinute: provider.requests_per_min,
      tokensPerMinute: provider.tokens_per_min,
      maxTokensField: provider.max_tokens_field,
      timeouts: {
        connectMs: timeouts.connect_ms,
        firstByteMs: timeouts.first_byte_ms,
        idleMs: timeouts.idle_ms,
        totalMs: timeouts.total_ms,
      },
    },
    labelsAllowed: toMask(provider.labels_allowed),
    models: provider.models,
    isConfigured: true,
    hasKey: key !== undefined,
  };
}

function fromStore(stored: StoredProvider, key: string | undefined): ProviderEntry {
  const provider = ProviderConfig.parse({
    dialect: stored.dialect,
    base_url: stored.baseUrl,
    models: stored.models,
  });
  const live = fromConfig(stored.name, provider, key);
  return { ...live, settings: { ...live.settings, price: stored.price }, isConfigured: false };
}

/** It is part of this runtime and keeps nothing, so it may see everything. */
function rehearsal(address: string): ProviderEntry {
  const provider = ProviderConfig.parse({
    dialect: 'anthropic',
    base_url: address,
    labels_allowed: LABELS,
    concurrency: REHEARSAL_CONCURRENCY,
  });
  const live = fromConfig(REHEARSAL, provider, REHEARSAL_KEY);
  return { ...live, hasKey: false };
}
