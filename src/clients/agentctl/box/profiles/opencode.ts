// opencode. Its providers are a setting, which it also reads from its environment.
import { MODEL_URL, type Profile } from './profile.ts';

const CONFIG = {
  $schema: 'https://opencode.ai/config.json',
  model: 'anthropic/claude-sonnet-4-5',
  small_model: 'anthropic/claude-haiku-4-5',
  autoupdate: false,
  share: 'disabled',
  provider: {
    anthropic: { options: { baseURL: `${MODEL_URL}/anthropic/v1` } },
    openai: { options: { baseURL: `${MODEL_URL}/openai/v1` } },
  },
};

export const opencode: Profile = {
  name: 'opencode',
  about: 'opencode of Anomaly',
  commands: ['opencode'],
  package: { name: 'opencode-ai', version: '1.18.33' },
  env: {
    OPENCODE_CONFIG_CONTENT: JSON.stringify(CONFIG),
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
  },
  homeFiles: [],
  needlessHosts: ['models.dev', 'opencode.ai'],
  round: (prompt) => ['run', prompt],
  nextRound: (prompt) => ['run', '--continue', prompt],
};
