// A plugin of some version that registers nothing. In C: what a plugin exports are C functions.
const char* tessera_plugin_version(void);
void tessera_register(void* table);

const char* tessera_plugin_version(void) { return STUB_VERSION; }
void tessera_register(void* table) { (void)table; }
