// The models as a program in a box sees them: a port of its loopback, and the environment that
// makes programs use it. The warden listens there; behind it is the run's own socket of modeld.

export const MODEL_PORT = 3129;
export const MODEL_URL = `http://127.0.0.1:${MODEL_PORT}`;
/** Programs refuse to start without a key. This one opens nothing: the port says who calls. */
const INERT_KEY = 'not-a-key-the-box-is-the-identity';

export function modelEnvironment(): Record<string, string> {
  return {
    OPENAI_BASE_URL: `${MODEL_URL}/openai/v1`,
    OPENAI_API_KEY: INERT_KEY,
    ANTHROPIC_BASE_URL: `${MODEL_URL}/anthropic`,
    ANTHROPIC_API_KEY: INERT_KEY,
    ANTHROPIC_AUTH_TOKEN: INERT_KEY,
  };
}
