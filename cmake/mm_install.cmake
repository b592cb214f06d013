# Programs to bin, data to share/moemark, where moemark looks for it as seen from itself (suite/study/paths.h).
include(GNUInstallDirs)
install(TARGETS moemark moemark-trainer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder experiments suite/models suite/systems baselines/published)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/moemark/${folder}
    FILES_MATCHING PATTERN "*.yaml" PATTERN "*.csv" PATTERN "README.md")
endforeach()
install(DIRECTORY baselines/peers/ DESTINATION ${CMAKE_INSTALL_DATADIR}/moemark/baselines/peers USE_SOURCE_PERMISSIONS)
