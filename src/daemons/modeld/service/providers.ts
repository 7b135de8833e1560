// Holds the providers from the configuration and from operators, and resolves model names to them.
// An added provider is usable at once.
import { checkValue } from '../../../platform/check.ts';
import { findNearest } from '../../../platform/did-you-mean.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type {
  AliasView,
  DialectName,
  ModelView,
  ProviderPrice,
  ProviderView,
} from '../../../wire/modeld.ts';
import type { Label } from '../../../wire/primitives.ts';
import { type ModeldConfig, ProviderConfig } from '../config.ts';
import { fromMask } from '../rules/labels.ts';
import { DEFAULT, findAlias, VENDOR_NAMES } from '../rules/model-aliases.ts';
import {
  guessKind,
  hasRealModel,
  isNamed,
  isOffered,
  listMeanings,
  listModels,
  type ModelEntry,
  type ModelKind,
  type ModelOffer,
  type ModelRoute,
  REHEARSAL,
  type ResolvedModel,
  resolveModel,
} from '../rules/models.ts';
import type { Keys } from '../store/keys.ts';
import { readAliases, readProviders, type StoredProvider } from '../store/settings.ts';
import type { LabeledRoute } from './model-call.ts';
import type { Upstream } from './ports.ts';
import {
  fromConfig,
  fromStore,
  makeRehearsal,
  type ProviderEntry,
  readKey,
} from './provider-entry.ts';

export type ProvidersDeps = {
  config: ModeldConfig;
  db: Database;
  keys: Keys;
  upstream: Upstream;
};

export class Providers {
  readonly #deps: ProvidersDeps;
  readonly #providers = new Map<string, ProviderEntry>();
  #config: ModeldConfig;
  #models: ReadonlyMap<string, ModelEntry>;
  /** By pattern; set by operators, where the configuration has none. */
  readonly #aliases = new Map<string, string>();
  #offer: ModelOffer | undefined;

  private constructor(parts: ProvidersDeps) {
    this.#deps = parts;
    this.#config = parts.config;
    this.#models = readModels(parts.config);
  }

  /** Takes models, aliases and the default model of a changed configuration. */
  reload(config: ModeldConfig): void {
    const models = readModels(config);
    this.#assertRoutes(models);
    this.#config = config;
    this.#models = models;
    this.#offer = undefined;
  }

  static async open(parts: ProvidersDeps): Promise<Providers> {
    const { config, db, keys } = parts;
    const own = new Providers(parts);
    for (const [name, provider] of Object.entries(config.providers))
      own.#connect(fromConfig(name, provider, readKey(name, provider, config.credentials_dir)));
    for (const stored of await db.read(readProviders))
      if (!own.#providers.has(stored.name)) own.#connect(fromStore(stored, keys.read(stored.name)));
    for (const { pattern, model } of await db.read(readAliases)) own.#aliases.set(pattern, model);
    if (config.rehearsal !== undefined) own.#connect(makeRehearsal(config.rehearsal.address));
    own.#assertRoutes(own.#models);
    return own;
  }

  /** `own` is the model that a run was started with. */
  resolve(
    name: string,
    kind: ModelKind,
    own?: string,
  ): { model: ResolvedModel; routes: LabeledRoute[] } {
    const model = resolveModel(this.#getOffer(), name, kind, own);
    return { model, routes: this.withLabels(model.routes) };
  }

  /** Adds the labels that each provider may see. */
  withLabels(routes: readonly ModelRoute[]): LabeledRoute[] {
    return routes.map((route) => ({
      ...route,
      labelsAllowed: this.#providers.get(route.provider)?.labelsAllowed ?? 0,
    }));
  }

  /** For other names an agent gets the default model. */
  isOffered(name: string): boolean {
    return isOffered(this.#getOffer(), name);
  }

  /** Throws for a person's unknown model name, unless `default_model` or the rehearsal applies. */
  assertOffered(name: string): void {
    const offer = this.#getOffer();
    if (offer.defaultModel === undefined && hasRealModel(offer) && !isOffered(offer, name))
      throw this.unknownModelFault(name);
  }

  /** Returns the names that this one stands for. `own` is the model that a run was started with. */
  listMeanings(name: string, kind: ModelKind, own?: string): string[] {
    return listMeanings(this.#getOffer(), name, { kind, own });
  }

  unknownModelFault(name: string): Fault {
    const known = [...this.listModelViews().map((model) => model.name), ...this.#providers.keys()];
    const near = findNearest(name, known);
    const guess = near === undefined ? '' : `; did you mean ${near}?`;
    const target = findAlias(this.#getOffer().aliases, name);
    if (target !== undefined)
      return fault('not_found', `model ${name} stands for ${target}, which no provider offers`, {
        hint: 'Choose another for it: agentctl model alias.',
      });
    return fault('not_found', `model ${name} not found${guess}`, {
      hint: 'Choose one from agentctl model list, add it with agentctl model add, or let the name stand for another with agentctl model alias.',
    });
  }

  /** Throws unless an operator may let this name stand for this model. */
  assertCanAlias(pattern: string, model: string | null): void {
    if (Object.hasOwn(this.#config.aliases, pattern))
      throw fault('conflict', `alias ${pattern} is set in the configuration`, {
        hint: 'Change it in agentd.yaml: modeld.aliases.',
      });
    if (model === null && !this.#aliases.has(pattern))
      throw fault('not_found', `alias ${pattern} not found`, {
        hint: 'List the aliases: agentctl model alias.',
      });
    if (model === null) return;
    if (model !== DEFAULT && !isNamed(this.#getOffer(), model)) throw this.unknownModelFault(model);
  }

  setAlias(pattern: string, model: string | null): void {
    if (model === null) this.#aliases.delete(pattern);
    else this.#aliases.set(pattern, model);
    this.#offer = undefined;
  }

  listAliases(): AliasView[] {
    const { aliases: configured } = this.#config;
    const set = this.#getOffer().aliases.map(({ pattern, model }) => ({
      pattern,
      model,
      set_by: Object.hasOwn(configured, pattern) ? ('config' as const) : ('operator' as const),
    }));
    const builtIn = VENDOR_NAMES.filter((pattern) => !set.some((one) => one.pattern === pattern));
    return [
      ...set.sort((a, b) => (a.pattern < b.pattern ? -1 : 1)),
      ...builtIn.map((pattern) => ({ pattern, model: DEFAULT, set_by: 'built-in' as const })),
    ];
  }

  getKind(name: string): ModelKind {
    return this.#models.get(name)?.kind ?? guessKind(name);
  }

  has(name: string): boolean {
    return this.#providers.has(name);
  }

  getDialect(name: string): DialectName | undefined {
    return this.#providers.get(name)?.settings.dialect;
  }

  getModels(name: string): readonly string[] {
    return this.#providers.get(name)?.models ?? [];
  }

  getPrice(name: string): ProviderPrice | undefined {
    return this.#providers.get(name)?.settings.price;
  }

  assertCanAdd(name: string, provider: { dialect: DialectName; base_url: string }): void {
    if (name === REHEARSAL) throw fault('bad_request', `${REHEARSAL} is a reserved name`);
    if (this.#providers.get(name)?.isConfigured === true) {
      throw fault('conflict', `provider ${name} is set in the configuration`, {
        hint: 'Change it in agentd.yaml, or use another name.',
      });
    }
    const checked = checkValue(ProviderConfig, provider);
    if (!checked.success) throw fault('bad_request', `base_url: ${checked.issues[0]!.message}`);
    if (URL.canParse(provider.base_url) && new URL(provider.base_url).password !== '')
      throw fault('bad_request', 'base_url must not contain a password; use the key instead');
  }

  add(stored: StoredProvider): ProviderView {
    this.#connect(fromStore(stored, this.#deps.keys.read(stored.name)));
    return this.view(stored.name);
  }

  /** Returns a provider that operators have added, or throws. */
  readAdded(name: string): StoredProvider {
    const live = this.#providers.get(name);
    if (live === undefined || name === REHEARSAL)
      throw fault('not_found', `provider ${name} not found`, {
        hint: 'Name a provider or model that was added: agentctl model list.',
      });
    if (live.isConfigured) throw this.#configuredFault(name);
    const { dialect, baseUrl, price } = live.settings;
    return { name, dialect, baseUrl, models: [...live.models], price };
  }

  /** Without it, the models of the configuration would have no provider at the next start. */
  assertNotRouted(name: string): void {
    if (this.#isRouted(name)) throw this.#configuredFault(name);
  }

  #configuredFault(name: string): Fault {
    return fault('conflict', `provider ${name} is used by the configuration`, {
      hint: 'Remove it from modeld.providers and modeld.models in agentd.yaml, and restart.',
    });
  }

  remove(name: string): void {
    this.#providers.delete(name);
    this.#offer = undefined;
    this.#deps.upstream.disconnect(name);
  }

  view(name: string): ProviderView {
    const live = this.#providers.get(name)!;
    const { inFlight, available, reason } = this.#deps.upstream.state(name);
    const isUseless = live.models.length === 0 && !this.#isRouted(name);
    const why = isUseless ? `it has no models: agentctl model add ${name} --model MODEL` : reason;
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

  /** Without the rehearsal, which only its models show. */
  listViews(): ProviderView[] {
    return [...this.#providers.keys()]
      .filter((name) => name !== REHEARSAL)
      .map((name) => this.view(name));
  }

  listModelViews(): ModelView[] {
    return listModels(this.#getOffer()).map((model) => {
      const states = model.routes.map((route) => this.#deps.upstream.state(route.provider));
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
        price: this.#deps.upstream.getPrice(model.routes[0]!.provider, model.routes[0]!.model),
        available,
        ...(reason === undefined ? {} : { reason }),
      };
    });
  }

  #getOffer(): ModelOffer {
    this.#offer ??= {
      models: this.#models,
      providers: [...this.#providers.values()]
        .filter(({ settings }) => settings.name !== REHEARSAL)
        .map(({ settings, models }) => ({ name: settings.name, models })),
      defaultModel: this.#config.default_model,
      aliases: [
        ...Object.entries(this.#config.aliases),
        ...[...this.#aliases].filter(([pattern]) => !Object.hasOwn(this.#config.aliases, pattern)),
      ].map(([pattern, model]) => ({ pattern, model })),
      hasRehearsal: this.#providers.has(REHEARSAL),
    };
    return this.#offer;
  }

  #isRouted(name: string): boolean {
    if (name === REHEARSAL) return true;
    return [...this.#models.values()].some(({ routes }) =>
      routes.some(({ provider }) => provider === name),
    );
  }

  #connect(live: ProviderEntry): void {
    this.#providers.set(live.settings.name, live);
    this.#offer = undefined;
    this.#deps.upstream.connect(live.settings);
  }

  #assertRoutes(models: ReadonlyMap<string, ModelEntry>): void {
    for (const [name, { routes }] of models) {
      const missing = routes.find(({ provider }) => !this.#providers.has(provider));
      if (missing === undefined) continue;
      throw fault(
        'bad_config',
        `modeld.models.${name} refers to unknown provider ${missing.provider}`,
        { hint: `Use one of these: ${[...this.#providers.keys()].join(', ') || 'none'}.` },
      );
    }
  }
}

const readModels = ({ models }: ModeldConfig): ReadonlyMap<string, ModelEntry> =>
  new Map(
    Object.entries(models).map(([name, model]) => [
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
